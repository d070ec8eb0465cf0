//! Benchmarks of every op, forward and backward, at the sizes of an 8M and a 34M model, on every path of the processor.
//!
//! A process has one path, so this program starts itself for each one with `SPAG_CPU`, unless it is set. A row is an op, the
//! median of its times, its rate, and its share of the path's peak: of multiply-adds, or of reads of memory for ops that are
//! bound by it. Shares of operands that fit a cache may exceed 100%. An argument selects ops by a part of their names, such as
//! `-- paged`.

mod peak;
mod table;

use std::process::{Command, ExitCode};
use std::time::Duration;

use candle_core::{DType, Device, Tensor};
use spag_model::config::Rope;
use spag_ops::CpuPath;
use spag_ops::adamw::{AdamWStep, Weights, adamw};
use spag_ops::attention::{self, Heads, Mask, Sequences};
use spag_ops::glu::Activation;
use spag_ops::kernels::{Accumulate, SumOrder};
use spag_ops::packed_linear::{self, PackedWeight};
use spag_ops::paged_attention::{self, PageShape, Plan, Span};
use spag_ops::rope::{self, Direction, Positions, RopeTable};
use spag_ops::squared_norm::squared_norm;
use spag_ops::{embedding, log_prob, matmul, rms_norm};

use peak::Peaks;
use table::{Budget, GROUPS, Table, bytes, floats, flops};

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
    Size { name: "34M", hidden: 512, feed_forward: 1376, vocabulary: 8192, sequences: 4, length: 512 },
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

/// y = x·Wᵀ, dx = dy·W and dW += dyᵀ·x, at the three shapes of a block.
fn linear(table: &Table) {
    for size in &SIZES {
        let (n, d, f) = (size.sequences * size.length, size.hidden, size.feed_forward);
        for (dtype, (i, o)) in DTYPES.iter().flat_map(|dtype| [(d, d), (d, f), (f, d)].map(|shape| (*dtype, shape))) {
            let (x, w, dy) = (random(n, i), in_format(random(o, i), dtype), random(n, o));
            let (residual, dw) = (random(n, o), random(o, i));
            let name = |pass: &str| format!("linear/{} {dtype:?} {i} to {o}, {pass}", size.name);
            let count = flops(2 * n * i * o).in_bf16(dtype == DType::BF16);
            table.op(name("forward"), count, || matmul::linear(&x, &w));
            table.op(name("forward onto residual"), count, || matmul::linear_add(&residual, &x, &w));
            table.op(name("backward input"), count, || matmul::linear_backward_input(&[(&dy, &w)]));
            table.op(name("backward weight"), count, || {
                matmul::linear_backward_weight(&dy, &x, (&dw, Accumulate::No), matmul::Arithmetic::of(&w))
            });
        }
    }
}

/// Half the FLOPs of unmasked attention: two products forward, five backward.
fn attention(table: &Table) {
    for (size, dtype) in SIZES.iter().flat_map(|size| DTYPES.map(|dtype| (size, dtype))) {
        let (n, d, t) = (size.sequences * size.length, size.hidden, size.length);
        let [q, k, v] = [0, 1, 2].map(|_| in_format(random(n, d), dtype));
        let dout = random(n, d);
        let bounds: Vec<u32> = (0..=size.sequences).map(|s| (s * t) as u32).collect();
        let sequences = Sequences::new(&bounds, &Device::Cpu).expect("the bounds rise");
        let heads = Heads { query: HEADS, kv: HEADS, dim: d / HEADS };
        let products = |count: usize| flops(count * size.sequences * t * (t + 1) * d).in_bf16(dtype == DType::BF16);
        let name = |pass: &str| format!("attention/{} {dtype:?} {pass}", size.name);
        table.op(name("forward"), products(2), || attention::forward(&q, &k, &v, &sequences, heads, &Mask::causal()));
        let (out, lse) = attention::forward(&q, &k, &v, &sequences, heads, &Mask::causal()).expect("the shapes fit");
        table.op(name("backward"), products(5), || {
            attention::backward(&q, &k, &v, &out, &lse, &dout, &sequences, heads, &Mask::causal())
        });
    }
}

/// The output head: one product forward, two backward.
fn head(table: &Table) {
    for size in &SIZES {
        let (n, d, v) = (size.sequences * size.length, size.hidden, size.vocabulary);
        let (hidden, head, dhead) = (random(n, d), random(v, d), random(v, d));
        let targets: Vec<u32> = (0..n).map(|i| (i * 31 % v) as u32).collect();
        let upstream = Tensor::full(0.1f32, n, &Device::Cpu).expect("memory");
        let name = |pass: &str| format!("log_prob/{} {pass}", size.name);
        table.op(name("forward"), flops(2 * n * d * v), || log_prob::forward(&hidden, &head, &targets));
        let forward = || log_prob::forward(&hidden, &head, &targets).expect("the shapes fit");
        table.op_on(name("backward"), flops(4 * n * d * v), forward, |forward| {
            log_prob::backward(forward, &hidden, &head, &targets, &upstream, Some(&dhead))
        });
    }
}

/// Ops bound by memory.
fn elementwise(table: &Table) {
    for size in &SIZES {
        let (n, d, f, t) = (size.sequences * size.length, size.hidden, size.feed_forward, size.length);
        let name = |op: &str| format!("elementwise/{} {op}", size.name);
        let (x, dy, residual) = (random(n, d), random(n, d), random(n, d));
        let (w, dw) = (Tensor::ones(d, DType::F32, &Device::Cpu), Tensor::zeros(d, DType::F32, &Device::Cpu));
        let (w, dw) = (w.expect("memory"), dw.expect("memory"));
        table.op(name("rms_norm forward"), floats(2 * n * d), || rms_norm::forward(&x, &w, 1e-5));
        table.op(name("rms_norm backward"), floats(4 * n * d), || {
            rms_norm::backward(&x, &w, 1e-5, &dy, Some(&residual), &dw)
        });
        let (gate, up, grad) = (random(n, f), random(n, f), random(n, f));
        table.op(name("swiglu forward"), floats(3 * n * f), || Activation::SwiGlu.forward(&gate, &up));
        table.op(name("swiglu backward"), floats(6 * n * f), || Activation::SwiGlu.backward(&gate, &up, &grad));
        let angles = RopeTable::new(Rope::new(1e4).frequencies(d / HEADS), t);
        let positions: Vec<u32> = (0..n).map(|i| (i % t) as u32).collect();
        let positions = Positions::new(&positions, &angles, &Device::Cpu).expect("the table is as long");
        table.op(name("rope"), floats(2 * n * d), || rope::rotate(&x, &positions, &angles, Direction::Forward));
        let (embeddings, gradients) = (random(size.vocabulary, d), random(size.vocabulary, d));
        let ids: Vec<u32> = (0..n).map(|i| (i * 31 % size.vocabulary) as u32).collect();
        table.op(name("embedding forward"), floats(2 * n * d), || embedding::forward(&ids, &embeddings));
        table.op(name("embedding backward"), floats(3 * n * d), || embedding::backward(&ids, &dy, &gradients));
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
        table.op(name("adamw, one block"), floats(7 * layer), || {
            adamw(Weights::F32(&parameter), &gradient, &m, &v, &at)
        });
        let narrow = gradient.to_dtype(DType::BF16).expect("memory");
        table.op(name("adamw, one block, bf16 gradient"), floats(7 * layer - layer / 2), || {
            adamw(Weights::F32(&parameter), &narrow, &m, &v, &at)
        });
        table.op(name("squared_norm, one block"), floats(layer), || squared_norm(&gradient));
        // The machine's ceiling, for comparison.
        table.op(name("copy of one block"), floats(2 * layer), || gradient.copy());
    }
}

/// Decoding against pages that no cache holds: 64 rows of 728 keys, of which 448 are common to every eight rows or to none.
fn paged(table: &Table) {
    const LAYERS: usize = 8;
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
        let read = bytes(2 * LAYERS * read * width * dtype.size_in_bytes());
        let name = format!("paged attention/{dtype:?} decode, {} of {seen} keys shared", shared * shape.tokens);
        table.op(name, read, || {
            layers.iter().try_for_each(|[keys, values]| {
                paged_attention::append(&qkv, keys, values, &plan)?;
                paged_attention::forward(&qkv, keys, values, &plan, &Mask::causal()).map(drop)
            })
        });
    }
}

/// Linear layers of generation: the four products of a block of a model with 271M parameters, whose weights no cache holds.
fn packed(table: &Table) {
    const LAYERS: usize = 8;
    const SHAPES: [(usize, usize); 4] = [(1024, 3072), (1024, 1024), (1024, 5632), (2816, 1024)];
    for dtype in DTYPES {
        let pack = |(i, o)| PackedWeight::new(&in_format(random(o, i), dtype)).expect("memory");
        let layers: Vec<[PackedWeight; 4]> = (0..LAYERS).map(|_| SHAPES.map(pack)).collect();
        for rows in [1, 8, 32, 512] {
            // Many rows are bound by arithmetic, whichever weights they use.
            let layers = if rows < 512 { &layers[..] } else { &layers[..1] };
            let inputs = SHAPES.map(|(i, _)| random(rows, i));
            let weights = layers.len() * SHAPES.iter().map(|(i, o)| i * o).sum::<usize>();
            let work = flops(2 * rows * weights).and_bytes(weights * dtype.size_in_bytes());
            let name = format!("packed/{dtype:?} {rows} rows, {} layers", layers.len());
            table.op(name, work.in_bf16(dtype == DType::BF16), || {
                layers.iter().flat_map(|layer| layer.iter().zip(&inputs)).try_for_each(|(weight, input)| {
                    packed_linear::forward(input, weight, None, SumOrder::Any).map(drop)
                })
            });
        }
    }
}

/// What bounds the decoding of one sequence: all threads read weights that no cache holds.
fn memory(table: &Table) {
    let values = vec![1u64; 1 << 27];
    table.op("memory/read of 1 GiB".to_owned(), bytes(1 << 30), || Ok(peak::read(&values)));
}

/// Measures the ops on the path of this process.
fn on_this_path(budget: Budget, filter: Option<String>) -> Result<(), Box<dyn std::error::Error>> {
    let path = CpuPath::selected()?;
    let table = Table { peaks: Peaks::measure(path), budget, filter };
    let Peaks { f32_flops, bf16_flops, bytes } = table.peaks;
    let [f32_flops, bf16_flops, bytes] = [f32_flops, bf16_flops, bytes].map(|rate| rate / 1e9);
    println!(
        "\n{path}, {} threads: peaks of {f32_flops:.0} GFLOP/s in f32, {bf16_flops:.0} in bf16, and {bytes:.1} GB/s",
        rayon::current_num_threads()
    );
    let groups: [fn(&Table); GROUPS.len()] = [linear, packed, attention, paged, head, elementwise, memory];
    for (name, group) in GROUPS.into_iter().zip(groups) {
        if table.wants(name) {
            group(&table);
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Without it, as under `cargo test`, the ops are only tried.
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let budget = match is_bench {
        true => Budget { time: Duration::from_secs(1), rounds: 200 },
        false => Budget { time: Duration::ZERO, rounds: 1 },
    };
    let filter = arguments.iter().find(|argument| !argument.starts_with('-')).cloned();
    let outcome = if std::env::var_os("SPAG_CPU").is_some() {
        on_this_path(budget, filter)
    } else {
        CpuPath::ALL.into_iter().filter(|path| path.is_available()).try_for_each(|path| {
            let status =
                Command::new(std::env::current_exe()?).args(&arguments).env("SPAG_CPU", path.name()).status()?;
            if status.success() { Ok(()) } else { Err(format!("{path}: {status}").into()) }
        })
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
