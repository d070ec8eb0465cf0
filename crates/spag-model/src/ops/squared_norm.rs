//! Σ x² over a flat buffer, for clipping by the global norm.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::{cpu, simd};

/// Elements summed in f32 before the sum goes on in f64; fixed, so the result does not depend on the thread count.
const CHUNK: usize = 4096;

/// The sum of squares of all elements, accumulated in f64.
///
/// # Errors
/// A tensor that is not contiguous f32.
pub fn squared_norm(x: &Tensor) -> Result<f64> {
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
