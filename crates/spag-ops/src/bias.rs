//! Adds a bias to every row: y += b. The bias gradient is the sum of the row gradients.

use candle_core::{DType, Result, Tensor, bail};
use rayon::prelude::*;

use super::rms_norm::{PARTS, sum_parts};
use super::{cpu, simd};
use crate::kernels::{self, Arg, Kernels, Launch, Module, THREADS, module, suffix, vector_len};

/// Rows per task. The gradient is summed per task to fix the summation order.
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
    if let Some(kernels) = kernels::of(y.device())? {
        return launch_add(&*kernels, y, bias);
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

/// Adds the column sums of `dy` [N, O] to `dbias` `[O]`, f32, in place, in a fixed order.
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32 (kernels also accept a `dy` of bf16).
pub fn backward(dy: &Tensor, dbias: &Tensor) -> Result<()> {
    let o = check(dy, dbias)?;
    if let Some(kernels) = kernels::of(dy.device())? {
        return launch_backward(&*kernels, dy, dbias);
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

// ── Kernel launches ──

const MODULE: Module = module!("bias");

/// Threads per block, and blocks, for a row of `x`.
fn row_blocks(x: &Tensor) -> Result<(u32, u32)> {
    let threads = x.dim(1)?.div_ceil(vector_len(x.dtype())) as u32;
    let block = threads.next_multiple_of(32).clamp(32, THREADS);
    Ok((block, threads.div_ceil(block)))
}

fn launch_add(kernels: &dyn Kernels, y: &Tensor, bias: &Tensor) -> Result<()> {
    let (n, o) = y.dims2()?;
    if bias.dtype() != y.dtype() {
        bail!("bias: {:?} to {:?}", bias.dtype(), y.dtype());
    }
    let (block, parts) = row_blocks(y)?;
    kernels.launch(&Launch {
        kernel: format!("bias_add_{}", suffix(y.dtype())?),
        grid: [n as u32, parts, 1],
        block,
        args: &[Arg::Out(y), Arg::In(bias), Arg::U32(o as u32)],
        ..Launch::of(MODULE)
    })
}

fn launch_backward(kernels: &dyn Kernels, dy: &Tensor, dbias: &Tensor) -> Result<()> {
    let (n, o) = dy.dims2()?;
    let (block, parts_of_row) = row_blocks(dy)?;
    let partial = kernels.empty(&[n.min(PARTS), o], DType::F32)?;
    kernels.launch(&Launch {
        kernel: format!("bias_backward_{}", suffix(dy.dtype())?),
        grid: [n.min(PARTS) as u32, parts_of_row, 1],
        block,
        args: &[Arg::In(dy), Arg::Out(&partial), Arg::U32(n as u32), Arg::U32(o as u32)],
        ..Launch::of(MODULE)
    })?;
    sum_parts(kernels, &partial, dbias)
}
