//! Benchmarks of every op, forward and backward, at the sizes of an 8M and a 35M model.
//!
//! For products, one element is one floating-point operation, so criterion's Gelem/s are GFLOP/s. For all other ops,
//! throughput counts the bytes that must be read and written.

#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use candle_core::{DType, Device, Tensor};
use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use rayon::prelude::*;
use spag_model::Rope;
use spag_model::ops::adamw::{AdamWStep, Weights, adamw};
use spag_model::ops::attention::{self, Heads, Mask, Sequences};
use spag_model::ops::paged_attention::{self, PageShape, Plan, Span};
use spag_model::ops::rope::{self, Direction, Positions, RopeTable};
use spag_model::ops::squared_norm::squared_norm;
use spag_model::ops::{embedding, log_prob, matmul, rms_norm, swiglu};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A model's sizes and batch.
struct Size {
    name: &'static str,
    hidden: usize,
    feed_forward: usize,
    vocabulary: usize,
    sequences: usize,
    length: usize,
}

const SIZES: [Size; 2] = [
    Size { name: "8M", hidden: 256, feed_forward: 688, vocabulary: 4096, sequences: 8, length: 256 },
    Size { name: "35M", hidden: 512, feed_forward: 1376, vocabulary: 8192, sequences: 4, length: 512 },
];

/// Query heads of both models, without GQA.
const HEADS: usize = 8;

fn random(rows: usize, columns: usize) -> Tensor {
    Tensor::randn(0f32, 1.0, (rows, columns), &Device::Cpu).expect("memory")
}

/// The number formats of weights.
const DTYPES: [DType; 2] = [DType::F32, DType::BF16];

fn in_format(tensor: Tensor, dtype: DType) -> Tensor {
    tensor.to_dtype(dtype).expect("f32 and bf16 can be converted")
}

/// Benchmarks `f` on a rayon thread, where the model runs its ops.
fn op<R>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: String,
    throughput: Throughput,
    f: impl Fn() -> candle_core::Result<R> + Sync,
) {
    group.throughput(throughput);
    group.bench_function(name, |b| {
        b.iter_custom(|rounds| {
            let mut elapsed = std::time::Duration::ZERO;
            rayon::scope(|_| {
                let start = std::time::Instant::now();
                for _ in 0..rounds {
                    std::hint::black_box(f().expect("the shapes fit"));
                }
                elapsed = start.elapsed();
            });
            elapsed
        });
    });
}

fn flops(count: usize) -> Throughput {
    Throughput::Elements(count as u64)
}

/// Bytes of `count` f32 numbers.
fn floats(count: usize) -> Throughput {
    Throughput::Bytes(4 * count as u64)
}

/// y = x·Wᵀ, dx = dy·W and dW += dyᵀ·x, at the three shapes of a block.
fn linear(c: &mut Criterion) {
    let mut group = c.benchmark_group("linear");
    for size in &SIZES {
        let (n, d, f) = (size.sequences * size.length, size.hidden, size.feed_forward);
        for (dtype, (i, o)) in DTYPES.iter().flat_map(|dtype| [(d, d), (d, f), (f, d)].map(|shape| (*dtype, shape))) {
            let (x, w, dy) = (random(n, i), in_format(random(o, i), dtype), random(n, o));
            let (residual, dw) = (random(n, o), random(o, i));
            let name = |pass: &str| format!("{} {dtype:?} {i} to {o}, {pass}", size.name);
            let count = 2 * n * i * o;
            op(&mut group, name("forward"), flops(count), || matmul::linear(&x, &w));
            op(&mut group, name("forward onto residual"), flops(count), || matmul::linear_add(&residual, &x, &w));
            op(&mut group, name("backward input"), flops(count), || matmul::linear_backward_input(&[(&dy, &w)]));
            op(&mut group, name("backward weight"), flops(count), || {
                matmul::linear_backward_weight(&dy, &x, &dw, matmul::Arithmetic::of(&w))
            });
        }
    }
    group.finish();
}

/// Half the FLOPs of unmasked attention: two products forward, five backward.
fn attention(c: &mut Criterion) {
    let mut group = c.benchmark_group("attention");
    for (size, dtype) in SIZES.iter().flat_map(|size| DTYPES.map(|dtype| (size, dtype))) {
        let (n, d, t) = (size.sequences * size.length, size.hidden, size.length);
        let [q, k, v] = [0, 1, 2].map(|_| in_format(random(n, d), dtype));
        let dout = random(n, d);
        let bounds: Vec<u32> = (0..=size.sequences).map(|s| (s * t) as u32).collect();
        let sequences = Sequences::new(&bounds, &Device::Cpu).expect("the bounds rise");
        let heads = Heads { query: HEADS, kv: HEADS, dim: d / HEADS };
        let product = size.sequences * t * (t + 1) * d;
        let name = |pass: &str| format!("{} {dtype:?} {pass}", size.name);
        op(&mut group, name("forward"), flops(2 * product), || {
            attention::forward(&q, &k, &v, &sequences, heads, &Mask::causal())
        });
        let (out, lse) = attention::forward(&q, &k, &v, &sequences, heads, &Mask::causal()).expect("the shapes fit");
        op(&mut group, name("backward"), flops(5 * product), || {
            attention::backward(&q, &k, &v, &out, &lse, &dout, &sequences, heads, &Mask::causal())
        });
    }
    group.finish();
}

/// The output head: one product forward, two backward.
fn head(c: &mut Criterion) {
    let mut group = c.benchmark_group("log_prob");
    for size in &SIZES {
        let (n, d, v) = (size.sequences * size.length, size.hidden, size.vocabulary);
        let (hidden, head, dhead) = (random(n, d), random(v, d), random(v, d));
        let targets: Vec<u32> = (0..n).map(|i| (i * 31 % v) as u32).collect();
        let upstream = Tensor::full(0.1f32, n, &Device::Cpu).expect("memory");
        let name = |pass: &str| format!("{} {pass}", size.name);
        op(&mut group, name("forward"), flops(2 * n * d * v), || log_prob::forward(&hidden, &head, &targets));
        group.throughput(flops(4 * n * d * v));
        group.bench_function(name("backward"), |b| {
            b.iter_batched(
                || log_prob::forward(&hidden, &head, &targets).expect("the shapes fit"),
                |forward| log_prob::backward(forward, &hidden, &head, &targets, &upstream, &dhead),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Ops bound by memory.
fn elementwise(c: &mut Criterion) {
    let mut group = c.benchmark_group("elementwise");
    for size in &SIZES {
        let (n, d, f, t) = (size.sequences * size.length, size.hidden, size.feed_forward, size.length);
        let name = |op: &str| format!("{} {op}", size.name);
        let (x, dy, residual) = (random(n, d), random(n, d), random(n, d));
        let (w, dw) = (Tensor::ones(d, DType::F32, &Device::Cpu), Tensor::zeros(d, DType::F32, &Device::Cpu));
        let (w, dw) = (w.expect("memory"), dw.expect("memory"));
        op(&mut group, name("rms_norm forward"), floats(2 * n * d), || rms_norm::forward(&x, &w, 1e-5));
        op(&mut group, name("rms_norm backward"), floats(4 * n * d), || {
            rms_norm::backward(&x, &w, 1e-5, &dy, Some(&residual), &dw)
        });
        let (gate, up, grad) = (random(n, f), random(n, f), random(n, f));
        op(&mut group, name("swiglu forward"), floats(3 * n * f), || swiglu::forward(&gate, &up));
        op(&mut group, name("swiglu backward"), floats(6 * n * f), || swiglu::backward(&gate, &up, &grad));
        let table = RopeTable::new(Rope::new(1e4).frequencies(d / HEADS), t);
        let positions: Vec<u32> = (0..n).map(|i| (i % t) as u32).collect();
        let positions = Positions::new(&positions, &table, &Device::Cpu).expect("the table is as long");
        op(&mut group, name("rope"), floats(2 * n * d), || rope::rotate(&x, &positions, &table, Direction::Forward));
        let (embeddings, gradients) = (random(size.vocabulary, d), random(size.vocabulary, d));
        let ids: Vec<u32> = (0..n).map(|i| (i * 31 % size.vocabulary) as u32).collect();
        op(&mut group, name("embedding forward"), floats(2 * n * d), || embedding::forward(&ids, &embeddings));
        op(&mut group, name("embedding backward"), floats(3 * n * d), || embedding::backward(&ids, &dy, &gradients));
        let layer = 4 * d * d + 3 * d * f;
        let [parameter, gradient, m, v] = [(); 4].map(|()| random(layer, 1).sqr().expect("memory"));
        let at = AdamWStep {
            step: 1,
            learning_rate: 1e-6,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            gradient_scale: 1.0,
        };
        op(&mut group, name("adamw, one block"), floats(7 * layer), || {
            adamw(Weights::F32(&parameter), &gradient, &m, &v, &at)
        });
        op(&mut group, name("squared_norm, one block"), floats(layer), || squared_norm(&gradient));
        // The machine's ceiling, for comparison.
        op(&mut group, name("copy of one block"), floats(2 * layer), || gradient.copy());
    }
    group.finish();
}

/// Decoding against pages that no cache holds: 64 rows of 728 keys, of which 448 are common to every eight rows or to none.
fn paged(c: &mut Criterion) {
    const LAYERS: usize = 8;
    let mut group = c.benchmark_group("paged attention");
    let (rows, prefixes, seen) = (64, 8, 728usize);
    let shape = PageShape { tokens: 64, heads: Heads { query: HEADS, kv: HEADS, dim: 64 } };
    let each = seen.div_ceil(shape.tokens);
    for (dtype, shared) in DTYPES.iter().flat_map(|dtype| [0, 7].map(|shared| (*dtype, shared))) {
        let tables: Vec<Vec<u32>> = (0..rows)
            .map(|row| {
                let own = (prefixes + row) * each;
                let prefix = if shared > 0 { row / (rows / prefixes) * each } else { own };
                (prefix..prefix + shared).chain(own + shared..own + each).map(|page| page as u32).collect()
            })
            .collect();
        let pages = (prefixes + rows) * each;
        let layers: Vec<[Tensor; 2]> =
            (0..LAYERS).map(|_| [0, 1].map(|_| in_format(random(pages, shape.elements()), dtype))).collect();
        let spans: Vec<Span<'_>> = tables
            .iter()
            .enumerate()
            .map(|(row, pages)| Span { rows: row..row + 1, position: seen - 1, pages })
            .collect();
        let plan = Plan::new(&spans, &layers[0][0], shape).expect("the pages reach");
        let width = HEADS * shape.heads.dim;
        let qkv = random(rows, 3 * width);
        let read = rows * seen - (rows - prefixes) * shared * shape.tokens;
        let bytes = 2 * LAYERS * read * width * dtype.size_in_bytes();
        let name = format!("{dtype:?} decode, {} of {seen} keys shared", shared * shape.tokens);
        op(&mut group, name, Throughput::Bytes(bytes as u64), || {
            layers.iter().try_for_each(|[keys, values]| {
                paged_attention::append(&qkv, keys, values, &plan)?;
                paged_attention::forward(&qkv, keys, values, &plan, &Mask::causal()).map(drop)
            })
        });
    }
    group.finish();
}

/// What bounds the decoding of one sequence: all threads read weights that no cache holds.
fn memory(c: &mut Criterion) {
    let mut group = c.benchmark_group("memory");
    let values = vec![1u64; 1 << 27];
    op(&mut group, "read of 1 GiB".to_owned(), Throughput::Bytes(1 << 30), || {
        let sums = values.par_chunks(1 << 17).map(|chunk| chunk.iter().fold(0, |sum: u64, x| sum.wrapping_add(*x)));
        Ok(sums.reduce(|| 0, u64::wrapping_add))
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(std::time::Duration::from_secs(1))
        .warm_up_time(std::time::Duration::from_millis(300));
    targets = linear, attention, paged, head, elementwise, memory
}
criterion_main!(benches);
