//! Random tensors and the comparison of results.

use candle_core::{DType, Device, Result, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Random numbers of a check; the same for every place.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Numbers in [-1, 1) that bf16 holds exactly, f32, on the CPU: so that both formats compute from the same.
    pub(crate) fn tensor(&mut self, shape: &[usize]) -> Result<Tensor> {
        let count = shape.iter().product();
        let values: Vec<f32> =
            (0..count).map(|_| half::bf16::from_f32(self.0.random::<f32>() * 2.0 - 1.0).to_f32()).collect();
        Tensor::from_vec(values, shape, &Device::Cpu)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }
}

/// Largest difference allowed, relative to the largest element expected: f32 sums in another order, or results rounded
/// to bf16 (2⁻⁹ of the element, and as much again for intermediate values that are rounded).
pub(crate) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 8e-3,
        _ => 1e-5,
    }
}

/// Panics where `got` is farther from `want` than `tolerance` of the largest element.
pub(crate) fn close(got: &Tensor, want: &Tensor, tolerance: f64, what: &str) {
    let values = |t: &Tensor| -> Vec<f64> {
        let t = t.to_device(&Device::Cpu).and_then(|t| t.to_dtype(DType::F64)).and_then(|t| t.flatten_all());
        t.and_then(|t| t.to_vec1()).unwrap_or_else(|e| panic!("{what}: {e}"))
    };
    assert_eq!(got.dims(), want.dims(), "{what}");
    let (got, want) = (values(got), values(want));
    let largest = want.iter().fold(1e-3f64, |m, x| m.max(x.abs()));
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        // A NaN is never close.
        assert!((g - w).abs() <= tolerance * largest, "{what}[{i}]: {g} against {w}, largest {largest}");
    }
}
