//! x
use candle_core::{DType, Device, Tensor};
use spag_model::ops::packed_linear::{self, PackedWeight};
use std::time::Instant;
fn main() {
    rayon::ThreadPoolBuilder::new().num_threads(2).build_global().unwrap();
    let shapes = [(3072, 1024), (1024, 1024), (5632, 1024), (1024, 2816)];
    let mut layers = Vec::new();
    let mut bytes = 0;
    for _ in 0..16 {
        for (o, i) in shapes {
            let w = Tensor::full(0.01f32, (o, i), &Device::Cpu).unwrap().to_dtype(DType::BF16).unwrap();
            bytes += o * i * 2;
            layers.push((i, o, PackedWeight::new(&w).unwrap()));
        }
    }
    let ms: Vec<usize> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    rayon::scope(|_| {
        for &m in &ms {
            let x1 = Tensor::full(0.5f32, (m, 1024), &Device::Cpu).unwrap();
            let x2 = Tensor::full(0.5f32, (m, 2816), &Device::Cpu).unwrap();
            let mut times = Vec::new();
            for _ in 0..7 {
                let t = Instant::now();
                for (i, _, w) in &layers {
                    let y = packed_linear::forward(if *i == 1024 { &x1 } else { &x2 }, w, None).unwrap();
                    std::hint::black_box(y);
                }
                times.push(t.elapsed().as_secs_f64());
            }
            times.sort_by(f64::total_cmp);
            let t = times[3];
            println!(
                "m {m}: {:.2} ms, {:.1} GB/s, {:.0} GFLOP/s",
                t * 1e3,
                bytes as f64 / t / 1e9,
                bytes as f64 * m as f64 / t / 1e9
            );
        }
    });
}
