//! Adds a bias to every row: y += b; the bias's gradient is the sum of the rows' gradients.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::{cpu, simd};
use crate::kernels;

/// Rows per task. The gradient is summed per task, so that its order is fixed.
const ROWS: usize = 64;

fn check(y: &Tensor, bias: &Tensor) -> Result<usize> {
    let (n, o) = y.dims2()?;
    if bias.dims() != [o] || o == 0 {
        bail!("bias: y is [{n}, {o}], the bias {:?}", bias.dims());
    }
    Ok(o)
}

/// `y` [N, O] += `bias` `[O]`, in place.
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32 (kernels also accept bf16).
pub fn add(y: &Tensor, bias: &Tensor) -> Result<()> {
    let o = check(y, bias)?;
    if let Some(_kernels) = kernels::of(y.device())? {
        bail!("bias: no kernels yet");
    }
    cpu::read(bias, |bias| {
        cpu::update(y, |y| {
            y.par_chunks_mut(o * ROWS).for_each(|y| {
                simd::vectorized(
                    #[inline(always)]
                    || {
                        for row in y.chunks_exact_mut(o) {
                            accumulate(row, bias);
                        }
                    },
                );
            });
            Ok(())
        })
    })
}

/// Adds the column sums of `dy` [N, O] to `dbias` `[O]`, f32, in place. The order of the sums is fixed.
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32 (kernels also accept a `dy` of bf16).
pub fn backward(dy: &Tensor, dbias: &Tensor) -> Result<()> {
    let o = check(dy, dbias)?;
    if let Some(_kernels) = kernels::of(dy.device())? {
        bail!("bias: no kernels yet");
    }
    let mut partial = vec![0f32; dy.dim(0)?.div_ceil(ROWS) * o];
    cpu::read(dy, |dy| {
        dy.par_chunks(o * ROWS).zip(partial.par_chunks_mut(o)).for_each(|(dy, sum)| {
            simd::vectorized(
                #[inline(always)]
                || {
                    for row in dy.chunks_exact(o) {
                        accumulate(sum, row);
                    }
                },
            );
        });
        Ok(())
    })?;
    cpu::update(dbias, |dbias| {
        for part in partial.chunks_exact(o) {
            accumulate(dbias, part);
        }
        Ok(())
    })
}

/// `to` += `from`.
#[inline(always)]
fn accumulate(to: &mut [f32], from: &[f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += from;
    }
}
