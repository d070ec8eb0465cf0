//! Gradients by central finite differences.

use candle_core::{Device, Tensor};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

pub(crate) fn random(shape: (usize, usize), rng: &mut ChaCha8Rng) -> Tensor {
    let values: Vec<f32> = (0..shape.0 * shape.1).map(|_| rng.random::<f32>() * 2.0 - 1.0).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

pub(crate) fn values(t: &Tensor) -> Vec<f32> {
    t.flatten_all().unwrap().to_vec1().unwrap()
}

/// Σ output·weights in f64: a scalar whose gradient with respect to the output is `weights`.
pub(crate) fn scalar(output: &Tensor, weights: &Tensor) -> f64 {
    values(output).iter().zip(values(weights)).map(|(o, w)| f64::from(*o) * f64::from(w)).sum()
}

/// Compares `analytic` with central differences of `f` at `x`, element by element.
pub(crate) fn differences(x: &Tensor, analytic: &Tensor, f: impl Fn(&Tensor) -> f64, what: &str) {
    let (base, got, h) = (values(x), values(analytic), 1e-2f32);
    let scale = got.iter().fold(1e-3f32, |m, g| m.max(g.abs()));
    for i in 0..base.len() {
        let at = |delta: f32| {
            let mut moved = base.clone();
            moved[i] += delta;
            f(&Tensor::from_vec(moved, x.dims(), &Device::Cpu).unwrap())
        };
        // Fourth order, so that a step large enough for f32 has a negligible truncation error.
        let (h1, h2) = (at(h) - at(-h), at(2.0 * h) - at(-2.0 * h));
        let numeric = (8.0 * h1 - h2) / (12.0 * f64::from(h));
        let error = (numeric - f64::from(got[i])).abs();
        assert!(error <= 2e-3 * f64::from(scale), "{what}[{i}]: {numeric} against {}", got[i]);
    }
}

/// A gradient buffer of ones, to check that gradients are accumulated.
pub(crate) fn ones(shape: &[usize]) -> Tensor {
    Tensor::ones(shape, candle_core::DType::F32, &Device::Cpu).unwrap()
}

pub(crate) fn minus_ones(t: &Tensor) -> Tensor {
    (t - 1.0).unwrap()
}
