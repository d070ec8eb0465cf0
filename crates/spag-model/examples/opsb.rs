//! tmp
use candle_core::{DType, Device, Tensor};
use spag_model::ops::*;
use std::time::Instant;
#[global_allocator]
static A: mimalloc::MiMalloc = mimalloc::MiMalloc;
fn t(name: &str, mult: f64, flops: f64, mut f: impl FnMut()) -> f64 {
    f();
    f();
    let mut best = vec![];
    for _ in 0..15 {
        let s = Instant::now();
        f();
        best.push(s.elapsed().as_secs_f64());
    }
    best.sort_by(f64::total_cmp);
    let m = best[7];
    println!("{name:24} {:.3} ms  ×{mult} = {:.1} ms   {:.0} GF/s", m * 1e3, m * mult * 1e3, flops / m / 1e9);
    m * mult
}
fn main() {
    rayon::scope(|_| real())
}
fn real() {
    let big = std::env::args().nth(1).as_deref() == Some("big");
    let (d, f, v, b, tt) = if big { (512, 1376, 8192, 4, 512) } else { (256, 688, 4096, 8, 256) };
    let n = b * tt;
    let l = 8.0;
    let hd = d / 8;
    let r = |a: usize, b: usize| Tensor::randn(0f32, 1.0, (a, b), &Device::Cpu).unwrap();
    let (x, w, wf, wd, wv) = (r(n, d), r(d, d), r(f, d), r(d, f), r(v, d));
    let xf = r(n, f);
    let nw = Tensor::ones(d, DType::F32, &Device::Cpu).unwrap();
    let fl = |a: usize, b: usize| 2.0 * (n * a * b) as f64;
    let (xg, xu, xd) = (r(n, f), r(n, f), r(n, f));
    let mut tot = 0.0;
    tot += t("linear d,d", 4.0 * l, fl(d, d), || {
        matmul::linear(&x, &w).unwrap();
    });
    tot += t("linear d,f", 2.0 * l, fl(d, f), || {
        matmul::linear(&x, &wf).unwrap();
    });
    tot += t("linear f,d", l, fl(d, f), || {
        matmul::linear(&xf, &wd).unwrap();
    });
    tot += t("dx o", l, fl(d, d), || {
        matmul::linear_backward_input(&[(&x, &w)]).unwrap();
    });
    tot += t("dx qkv", l, 3.0 * fl(d, d), || {
        matmul::linear_backward_input(&[(&x, &w), (&x, &w), (&x, &w)]).unwrap();
    });
    tot += t("dx gate,up", l, 2.0 * fl(d, f), || {
        matmul::linear_backward_input(&[(&xf, &wf), (&xf, &wf)]).unwrap();
    });
    tot += t("dx down", l, fl(d, f), || {
        matmul::linear_backward_input(&[(&x, &wd)]).unwrap();
    });
    tot += t("dw d,d", 4.0 * l, fl(d, d), || {
        matmul::linear_backward_weight(&x, &x, &w).unwrap();
    });
    tot += t("dw f,d", 2.0 * l, fl(d, f), || {
        matmul::linear_backward_weight(&xf, &x, &wf).unwrap();
    });
    tot += t("dw d,f", l, fl(d, f), || {
        matmul::linear_backward_weight(&x, &xf, &wd).unwrap();
    });
    println!("linear sum {:.1}", tot * 1e3);
    let bounds: Vec<u32> = (0..=b).map(|i| (i * tt) as u32).collect();
    let heads = attention::Heads { query: 8, kv: 8, dim: hd };
    let af = (b * 8 * tt * tt * hd * 2) as f64;
    tot += t("attention fwd", l, af, || {
        attention::forward(&x, &x, &x, &bounds, heads).unwrap();
    });
    let (o, lse) = attention::forward(&x, &x, &x, &bounds, heads).unwrap();
    tot += t("attention bwd", l, 2.5 * af, || {
        attention::backward(&x, &x, &x, &o, &lse, &x, &bounds, heads).unwrap();
    });
    tot += t("rms fwd", 2.0 * l + 1.0, 0., || {
        rms_norm::forward(&x, &nw, 1e-5).unwrap();
    });
    tot += t("rms bwd", 2.0 * l + 1.0, 0., || {
        rms_norm::backward(&x, &nw, 1e-5, &x, Some(&x), &nw).unwrap();
    });
    tot += t("swiglu fwd", l, 0., || {
        swiglu::forward(&xf, &xf).unwrap();
    });
    tot += t("swiglu bwd", l, 0., || {
        swiglu::backward(&xg, &xu, &xd).unwrap();
    });
    let table = rope::RopeTable::new(hd, 1e4, tt);
    let pos: Vec<u32> = (0..n).map(|i| (i % tt) as u32).collect();
    tot += t("rope", 4.0 * l, 0., || {
        rope::rotate(&x, &pos, &table, rope::Direction::Forward).unwrap();
    });
    tot += t("add", 2.0 * l, 0., || {
        (&x + &x).unwrap();
    });
    let targets: Vec<u32> = (0..n as u32).map(|i| i * 31 % v as u32).collect();
    tot += t("logprob fwd", 1.0, fl(d, v), || {
        log_prob::forward(&x, &wv, &targets).unwrap();
    });
    let up = vec![0.1f32; n];
    tot += t("logprob fwd+bwd", 1.0, 2. * fl(d, v), || {
        log_prob::backward(log_prob::forward(&x, &wv, &targets).unwrap(), &x, &wv, &targets, &up, &wv).unwrap();
    });
    tot += t("embed fwd", 2.0, 0., || {
        embedding::forward(&targets, &wv).unwrap();
    });
    tot += t("embed bwd", 2.0, 0., || {
        embedding::backward(&targets, &x, &wv).unwrap();
    });
    let wbig = r(d * d * 4 + 3 * d * f, 1);
    tot += t("adamw", l, 0., || {
        adamw::adamw(
            &wbig,
            &wbig.copy().unwrap(),
            &wbig.copy().unwrap(),
            &wbig.copy().unwrap(),
            &adamw::AdamWStep {
                step: 1,
                learning_rate: 1e-6,
                beta1: 0.9,
                beta2: 0.999,
                epsilon: 1e-8,
                weight_decay: 0.0,
                gradient_scale: 1.0,
            },
        )
        .unwrap();
    });
    println!("sum {:.1} ms", tot * 1e3);
}
