//! Random tensors and comparisons.

use candle_core::{DType, Device, Result, Tensor};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spag_emulator::Place;

/// Random numbers of a check, identical on every place.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// An f32 CPU tensor of numbers in [-1, 1) that are exact in bf16, so that both formats get the same inputs.
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

/// Copies a CPU tensor to a place in another number format.
type Put = fn(&Place, &Tensor, DType) -> Result<Tensor>;

/// A separate tensor, or a view that starts at the second element of its memory, as views of a layer may.
pub(crate) const PUTS: [Put; 2] = [Place::put, unaligned];

fn unaligned(place: &Place, tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    let flat = tensor.flatten_all()?.pad_with_zeros(0, 1, 0)?;
    place.put(&flat, dtype)?.narrow(0, 1, tensor.elem_count())?.reshape(tensor.dims())
}

/// Tolerance relative to the largest expected element: f32 sums in another order, or rounding to bf16 (2⁻⁹ per element,
/// and as much for rounded intermediates).
pub(crate) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 8e-3,
        _ => 1e-5,
    }
}

/// Panics if `got` differs from `want` by more than `tolerance` of the largest element.
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
