//! Benchmarks of each kernel at the sizes of LLaMA-2-7B, in bf16.

use candle_core::{DType, Device, Result, Tensor};
use spag_model::config::Rope;
use spag_ops::adamw::{AdamWStep, Weights, adamw};
use spag_ops::attention::{self, Heads, Mask, Sequences};
use spag_ops::glu::Activation;
use spag_ops::kernels::Accumulate;
use spag_ops::paged_attention::{self, PageShape, Plan, Span};
use spag_ops::rope::{self, Direction, Positions, RopeTable};
use spag_ops::sample::{SampleParams, sample};
use spag_ops::{embedding, log_prob, matmul, rms_norm, squared_norm};

use crate::ceilings::Ceilings;
use crate::timed::{Floor, seconds};

/// Tokens of a micro-batch: two sequences of 2048.
const TOKENS: usize = 4096;
const HIDDEN: usize = 4096;
const FEED_FORWARD: usize = 11_008;
const VOCABULARY: usize = 32_000;
const HEADS: Heads = Heads { query: 32, kv: 32, dim: 128 };

struct Bench<'a> {
    device: &'a Device,
    ceilings: &'a Ceilings,
}

impl Bench<'_> {
    fn random(&self, shape: &[usize]) -> Result<Tensor> {
        Tensor::randn(0f32, 1f32, shape, self.device)?.to_dtype(DType::BF16)
    }

    fn zeros(&self, shape: &[usize]) -> Result<Tensor> {
        Tensor::zeros(shape, DType::F32, self.device)
    }

    fn time(&self, what: &str, floor: Floor, work: impl FnMut() -> Result<()>) -> Result<()> {
        floor.print(what, seconds(self.device, work)?, self.ceilings);
        Ok(())
    }
}

/// Bytes of `count` bf16 numbers.
fn narrow(count: usize) -> f64 {
    2.0 * count as f64
}

/// Times every kernel.
pub(crate) fn measure(device: &Device, ceilings: &Ceilings) -> Result<()> {
    let bench = Bench { device, ceilings };
    rows(&bench)?;
    products(&bench)?;
    attention(&bench)?;
    head(&bench)?;
    decode(&bench)?;
    optimizer(&bench)
}

fn rows(bench: &Bench<'_>) -> Result<()> {
    let (n, d, f) = (TOKENS, HIDDEN, FEED_FORWARD);
    let (x, dy, w, dw) = (bench.random(&[n, d])?, bench.random(&[n, d])?, bench.random(&[d])?, bench.zeros(&[d])?);
    bench.time("rms_norm forward 4096×4096", Floor::Bytes(narrow(2 * n * d)), || {
        rms_norm::forward(&x, &w, 1e-5).map(drop)
    })?;
    bench.time("rms_norm backward 4096×4096, with residual", Floor::Bytes(narrow(4 * n * d)), || {
        rms_norm::backward(&x, &w, 1e-5, &dy, Some(&dy), &dw).map(drop)
    })?;
    let table = RopeTable::new(Rope::new(10_000.0).frequencies(HEADS.dim), 4096);
    let places: Vec<u32> = (0..n as u32).map(|i| i % 2048).collect();
    let positions = Positions::new(&places, &table, bench.device)?;
    bench.time("rope 4096×4096, in place", Floor::Bytes(narrow(2 * n * d)), || {
        rope::rotate(&x, &positions, &table, Direction::Forward)
    })?;
    let (gate, up, dy) = (bench.random(&[n, f])?, bench.random(&[n, f])?, bench.random(&[n, f])?);
    bench.time("swiglu forward 4096×11008", Floor::Bytes(narrow(3 * n * f)), || {
        Activation::SwiGlu.forward(&gate, &up).map(drop)
    })?;
    bench.time("swiglu backward 4096×11008, in place", Floor::Bytes(narrow(6 * n * f)), || {
        Activation::SwiGlu.backward(&gate, &up, &dy)
    })?;
    let (table, dtable) = (bench.random(&[VOCABULARY, d])?, bench.zeros(&[VOCABULARY, d])?);
    let ids: Vec<u32> = (0..n as u32).map(|i| i * 7919 % VOCABULARY as u32).collect();
    bench.time("embedding forward 4096 of 32000×4096", Floor::Bytes(narrow(2 * n * d)), || {
        embedding::forward(&ids, &table).map(drop)
    })?;
    let touched = narrow(n * d) + 8.0 * (n * d) as f64;
    bench.time("embedding backward 4096 of 32000×4096", Floor::Bytes(touched), || {
        embedding::backward(&ids, &x, &dtable)
    })
}

fn products(bench: &Bench<'_>) -> Result<()> {
    let (n, d, f) = (TOKENS, HIDDEN, FEED_FORWARD);
    let (x, y, w) = (bench.random(&[n, d])?, bench.random(&[n, f])?, bench.random(&[f, d])?);
    let dw = bench.zeros(&[f, d])?;
    let flops = Floor::Flops(2.0 * (n * d * f) as f64);
    bench.time("linear 4096×4096 → 11008", flops, || matmul::linear(&x, &w).map(drop))?;
    bench.time("linear backward, input", flops, || matmul::linear_backward_input(&[(&y, &w)]).map(drop))?;
    for (name, accumulate) in [("added", Accumulate::Yes), ("written", Accumulate::No)] {
        bench.time(&format!("linear backward, weight, {name} in f32"), flops, || {
            matmul::linear_backward_weight(&y, &x, (&dw, accumulate), matmul::Arithmetic::F32)
        })?;
    }
    Ok(())
}

/// Attention of packed sequences: their number, their length, and heads.
const ATTENTION: [(usize, usize, Heads); 5] = [
    (2, 2048, HEADS),
    (8, 500, HEADS),
    (1, 16_384, Heads { kv: 8, ..HEADS }),
    (4, 4096, Heads { query: 32, kv: 32, dim: 64 }),
    (16, 200, Heads { query: 9, kv: 3, dim: 64 }),
];

fn attention(bench: &Bench<'_>) -> Result<()> {
    for (count, length, heads) in ATTENTION {
        let (n, wide, narrow) = (count * length, heads.query * heads.dim, heads.kv * heads.dim);
        let [q, g] = [(); 2].map(|()| bench.random(&[n, wide]));
        let [k, v] = [(); 2].map(|()| bench.random(&[n, narrow]));
        let (q, k, v, g) = (q?, k?, v?, g?);
        let bounds: Vec<u32> = (0..=count).map(|i| (i * length) as u32).collect();
        let sequences = Sequences::new(&bounds, bench.device)?;
        // Two products of 2·T²·dim each, half of which is masked, per head of each sequence.
        let forward = 2.0 * (count * length * length * wide) as f64;
        let what = format!("attention {count}×{length}, {}/{} of {}", heads.query, heads.kv, heads.dim);
        bench.time(&format!("{what}, forward"), Floor::Flops(forward), || {
            attention::forward(&q, &k, &v, &sequences, heads, &Mask::causal()).map(drop)
        })?;
        let (out, lse) = attention::forward(&q, &k, &v, &sequences, heads, &Mask::causal())?;
        bench.time(&format!("{what}, backward (5 products)"), Floor::Flops(2.5 * forward), || {
            attention::backward(&q, &k, &v, &out, &lse, &g, &sequences, heads, &Mask::causal()).map(drop)
        })?;
    }
    Ok(())
}

fn head(bench: &Bench<'_>) -> Result<()> {
    let (m, d, v) = (TOKENS, HIDDEN, VOCABULARY);
    let (hidden, head, dhead) = (bench.random(&[m, d])?, bench.random(&[v, d])?, bench.zeros(&[v, d])?);
    let targets: Vec<u32> = (0..m as u32).map(|i| i * 7919 % v as u32).collect();
    let upstream = bench.zeros(&[m])?;
    let product = 2.0 * (m * d * v) as f64;
    bench.time("output head forward, 4096 of 32000", Floor::Flops(product), || {
        log_prob::forward(&hidden, &head, &targets).map(drop)
    })?;
    bench.time("output head forward and backward", Floor::Flops(3.0 * product), || {
        let forward = log_prob::forward(&hidden, &head, &targets)?;
        log_prob::backward(forward, &hidden, &head, &targets, &upstream, Some(&dhead)).map(drop)
    })
}

fn decode(bench: &Bench<'_>) -> Result<()> {
    let (batch, context, shape) = (64, 700, PageShape { tokens: 64, heads: HEADS });
    let each = 768 / shape.tokens;
    let (keys, values) =
        (bench.random(&[batch * each, shape.elements()])?, bench.random(&[batch * each, shape.elements()])?);
    let pages: Vec<Vec<u32>> = (0..batch).map(|i| (0..each).map(|j| (i * each + j) as u32).collect()).collect();
    let spans: Vec<Span<'_>> =
        pages.iter().enumerate().map(|(i, pages)| Span { rows: i..i + 1, position: context - 1, pages }).collect();
    let plan = Plan::new(&spans, &keys, shape)?;
    let qkv = bench.random(&[batch, 3 * HIDDEN])?;
    bench.time("paged attention, decode 64 × 700", Floor::Bytes(narrow(2 * batch * context * HIDDEN)), || {
        paged_attention::forward(&qkv, &keys, &values, &plan, &Mask::causal()).map(drop)
    })?;
    let span = Span { rows: 0..512, position: 188, pages: &pages[0] };
    let plan = Plan::new(&[span], &keys, shape)?;
    let qkv = bench.random(&[512, 3 * HIDDEN])?;
    let seen: usize = (0..512).map(|row| 188 + row + 1).sum();
    bench.time("paged attention, prefill of 512 after 188", Floor::Flops(4.0 * (seen * HIDDEN) as f64), || {
        paged_attention::forward(&qkv, &keys, &values, &plan, &Mask::causal()).map(drop)
    })?;
    let logits = Tensor::randn(0f32, 1f32, (batch, VOCABULARY), bench.device)?;
    let params = vec![SampleParams::default(); batch];
    bench.time("sampling 64 of 32000", Floor::Bytes(4.0 * (batch * VOCABULARY) as f64), || {
        sample(&logits, &params).map(drop)
    })
}

fn optimizer(bench: &Bench<'_>) -> Result<()> {
    let count = 202_383_360;
    let [wide, gradient, m, v] = [(); 4].map(|()| bench.zeros(&[count]));
    let (wide, gradient, m, v) = (wide?, gradient?, m?, v?);
    let rounded = Tensor::zeros(count, DType::BF16, bench.device)?;
    let at = AdamWStep {
        step: 1,
        learning_rate: 1e-5,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        weight_decay: 0.0,
        gradient_scale: 1.0,
    };
    bench.time("AdamW, one block's 202M, master weights", Floor::Bytes(30.0 * count as f64), || {
        adamw(Weights::Master { wide: &wide, rounded: &rounded }, &gradient, &m, &v, &at)
    })?;
    let sum = Tensor::zeros(1, DType::F64, bench.device)?;
    bench.time("squared norm of 202M", Floor::Bytes(4.0 * count as f64), || {
        squared_norm::squared_norm_into(std::slice::from_ref(&gradient), &sum)
    })
}
