//! tmp
use candle_core::{Device, Tensor};
use spag_model::ops::{adamw::*, squared_norm::squared_norm};
use spag_model::*;
use std::time::Instant;
#[global_allocator]
static A: mimalloc::MiMalloc = mimalloc::MiMalloc;
fn main() {
    let big = std::env::args().nth(1).as_deref() == Some("big");
    let (d, f, v, b, t) = if big { (512, 1376, 8192, 4, 512) } else { (256, 688, 4096, 8, 256) };
    let config: LlamaConfig = serde_json::from_value(serde_json::json!({"hidden_size": d, "intermediate_size": f, "vocab_size": v, "num_hidden_layers": 8, "num_attention_heads": 8, "max_position_embeddings": 512})).unwrap();
    let model = Llama::init(&config, 1).unwrap();
    println!("params {}", model.parameters().layout().len());
    let seqs: Vec<Vec<u32>> =
        (0..b).map(|i| (0..t).map(|j| ((i * 7919 + j * 104729) % (v - 3) + 3) as u32).collect()).collect();
    let batch = Packed::new(seqs.iter().map(|s| s.as_slice()));
    let mut targets = Targets::default();
    for (i, s) in seqs.iter().enumerate() {
        for j in 1..t {
            targets.rows.push((i * t + j - 1) as u32);
            targets.tokens.push(s[j]);
        }
    }
    let up = vec![-1.0 / (b * (t - 1)) as f32; targets.rows.len()];
    let z = || FlatBuffers::zeros(model.parameters().layout(), &Device::Cpu).unwrap();
    let (g, m, vv) = (z(), z(), z());
    let n: usize = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(8);
    let mut times = vec![];
    for s in 0..n {
        let t0 = Instant::now();
        g.set_zero().unwrap();
        let fw = model.forward(batch.clone(), targets.clone(), Activations::Keep).unwrap();
        let t1 = Instant::now();
        model.backward(fw, &up, &g).unwrap();
        let t2 = Instant::now();
        let mut norm = 0.0;
        for l in g.layers() {
            norm += squared_norm(l).unwrap();
        }
        let at = AdamWStep {
            step: s as u64 + 1,
            learning_rate: 1e-6,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            gradient_scale: 1.0,
        };
        for i in 0..g.layers().len() {
            adamw(&model.parameters().layers()[i], &g.layers()[i], &m.layers()[i], &vv.layers()[i], &at).unwrap();
        }
        let t3 = Instant::now();
        println!("fwd {:?} bwd {:?} opt {:?} total {:?} norm {norm}", t1 - t0, t2 - t1, t3 - t2, t3 - t0);
        times.push((t3 - t0).as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    println!("median {:.3}", times[times.len() / 2]);
    let _ = Tensor::zeros(1, candle_core::DType::F32, &Device::Cpu);
}
