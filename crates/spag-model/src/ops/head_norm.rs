//! RMSNorm of every head by itself, with one weight for all heads: queries and keys of Qwen3.
//!
//! On a CPU these are the sums of [`super::rms_norm`], so the same head has the same bits by both forward functions.

use std::ops::Range;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::rms_norm::{self, inverse_rms, scaled};
use super::{cpu, simd};
use crate::kernels;

/// Rows per task.
const ROWS: usize = 32;

/// The head size.
fn check(x: &Tensor, columns: &Range<usize>, w: &Tensor) -> Result<usize> {
    let (n, width) = x.dims2()?;
    let dim = w.dims1()?;
    let inside = columns.start <= columns.end && columns.end <= width;
    if dim == 0 || !inside || !columns.start.is_multiple_of(dim) || !columns.len().is_multiple_of(dim) {
        bail!("head_norm: columns {columns:?} of x [{n}, {width}] are not heads of size {dim}");
    }
    Ok(dim)
}

/// `x` with one head a row.
fn by_heads(x: &Tensor, dim: usize) -> Result<Tensor> {
    x.reshape((x.elem_count() / dim, dim))
}

/// `x` [N, H·head size], `w` [head size] → [N, H·head size].
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32 (kernels also accept bf16).
pub fn forward(x: &Tensor, w: &Tensor, eps: f32) -> Result<Tensor> {
    let dim = check(x, &(0..x.dim(1)?), w)?;
    if let Some(_kernels) = kernels::of(x.device())? {
        bail!("head_norm: no kernels yet");
    }
    rms_norm::forward(&by_heads(x, dim)?, w, eps)?.reshape(x.dims2()?)
}

/// Normalizes the heads in these columns of `x` [N, W] in place: queries or keys of a joint QKV tensor.
///
/// # Errors
/// Columns that are not whole heads; otherwise as [`forward`].
pub fn forward_columns(x: &Tensor, columns: Range<usize>, w: &Tensor, eps: f32) -> Result<()> {
    let dim = check(x, &columns, w)?;
    if let Some(_kernels) = kernels::of(x.device())? {
        bail!("head_norm: no kernels yet");
    }
    let width = x.dim(1)?;
    cpu::read(w, |w| {
        cpu::update(x, |x| {
            x.par_chunks_mut(width.max(1) * ROWS).for_each(|x| {
                simd::vectorized(
                    #[inline(always)]
                    || {
                        for row in x.chunks_exact_mut(width) {
                            for head in row[columns.clone()].chunks_exact_mut(dim) {
                                let r = inverse_rms(head, eps);
                                for (x, w) in head.iter_mut().zip(w) {
                                    *x = scaled(*x, r, *w);
                                }
                            }
                        }
                    },
                );
            });
            Ok(())
        })
    })
}

/// Returns the gradient of `x`, which is the input of [`forward`], and adds the gradient of the weight to `dw`, f32, in
/// place.
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32 (kernels also accept bf16).
pub fn backward(x: &Tensor, w: &Tensor, eps: f32, dy: &Tensor, dw: &Tensor) -> Result<Tensor> {
    let dim = check(x, &(0..x.dim(1)?), w)?;
    if dy.dims() != x.dims() || dw.dims() != [dim] {
        bail!("head_norm backward: x is {:?}, dy is {:?}, dw is {:?}", x.dims(), dy.dims(), dw.dims());
    }
    if let Some(_kernels) = kernels::of(x.device())? {
        bail!("head_norm: no kernels yet");
    }
    rms_norm::backward(&by_heads(x, dim)?, w, eps, &by_heads(dy, dim)?, None, dw)?.reshape(x.dims2()?)
}
