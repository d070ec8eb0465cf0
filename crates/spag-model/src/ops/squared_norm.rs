//! Σ x² over a flat buffer, for clipping by the global norm.

mod device;

use candle_core::{DType, Result, Tensor, bail};
use rayon::prelude::*;

use super::{cpu, simd};
use crate::kernels;

/// Elements summed in f32 before the sum goes on in f64; fixed, so the result does not depend on the thread count.
const CHUNK: usize = 4096;

/// The sum of squares of all elements, accumulated in f64. Waits for the device.
///
/// # Errors
/// A tensor that is not contiguous f32.
pub fn squared_norm(x: &Tensor) -> Result<f64> {
    if kernels::of(x.device())?.is_some() {
        let sum = Tensor::zeros(1, DType::F64, x.device())?;
        squared_norm_into(x, &sum)?;
        return sum.get(0)?.to_scalar();
    }
    cpu::read(x, |x| {
        let parts: Vec<f64> = x
            .par_chunks(CHUNK)
            .map(|chunk| {
                f64::from(simd::vectorized(
                    #[inline(always)]
                    || simd::dot(chunk, chunk),
                ))
            })
            .collect();
        Ok(parts.iter().sum())
    })
}

/// Adds the sum of squares of all elements to the running sum `into`, `[1]`, f64. Does not wait for the device.
///
/// # Errors
/// A tensor that is not contiguous f32, or a sum of another shape or number format.
pub fn squared_norm_into(x: &Tensor, into: &Tensor) -> Result<()> {
    if into.dims() != [1] || into.dtype() != DType::F64 {
        bail!("squared_norm: the sum is {:?} {:?}, not f64 [1]", into.dtype(), into.dims());
    }
    if let Some(kernels) = kernels::of(x.device())? {
        return device::add(&*kernels, x, into);
    }
    let sum = squared_norm(x)?;
    cpu::update_f64(into, |into| {
        into[0] += sum;
        Ok(())
    })
}
