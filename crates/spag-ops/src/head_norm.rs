//! RMSNorm per head, with one weight shared by all heads, for queries and keys of Qwen3. With a single head of full width,
//! these are the query and key norms of OLMo 2.
//!
//! On a CPU, sums are those of [`super::rms_norm`], so both forward functions are bit-identical for the same head.

use std::ops::Range;

use candle_core::{DType, Result, Tensor, bail};
use rayon::prelude::*;

use super::rms_norm::{self, PARTS, RmsNorm, inverse_rms, scaled, sum_parts};
use super::{cpu, simd};
use crate::kernels::{self, Arg, Kernels, Launch, Module, THREADS, blocks, module, suffix, vector_len};

/// Rows per task.
const ROWS: usize = 32;

/// Checks shapes and returns the head size.
fn check(x: &Tensor, columns: &Range<usize>, w: &Tensor) -> Result<usize> {
    let (n, width) = x.dims2()?;
    let dim = w.dims1()?;
    let inside = columns.start <= columns.end && columns.end <= width;
    if dim == 0 || !inside || !columns.start.is_multiple_of(dim) || !columns.len().is_multiple_of(dim) {
        bail!("head_norm: columns {columns:?} of x [{n}, {width}] are not heads of size {dim}");
    }
    Ok(dim)
}

/// Reshapes `x` to one head per row.
fn by_heads(x: &Tensor, dim: usize) -> Result<Tensor> {
    x.reshape((x.elem_count() / dim, dim))
}

/// `x` [N, H·head size], `w` [head size] → [N, H·head size].
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32 (kernels also accept bf16).
pub fn forward(x: &Tensor, w: &Tensor, norm: impl Into<RmsNorm>) -> Result<Tensor> {
    let (dim, norm) = (check(x, &(0..x.dim(1)?), w)?, norm.into());
    if let Some(kernels) = kernels::of(x.device())? {
        return launch_forward(&*kernels, x, w, norm);
    }
    rms_norm::forward(&by_heads(x, dim)?, w, norm)?.reshape(x.dims2()?)
}

/// Normalizes the heads in these columns of `x` [N, W] in place, for queries or keys of a fused QKV tensor.
///
/// # Errors
/// Columns that are not whole heads; otherwise as [`forward`].
pub fn forward_columns(x: &Tensor, columns: Range<usize>, w: &Tensor, norm: impl Into<RmsNorm>) -> Result<()> {
    let (dim, norm) = (check(x, &columns, w)?, norm.into());
    if let Some(kernels) = kernels::of(x.device())? {
        return launch_columns(&*kernels, x, columns, w, norm);
    }
    let width = x.dim(1)?;
    cpu::read(w, |w| {
        let w = &*norm.factors(w);
        cpu::update(x, |x| {
            x.par_chunks_mut(width.max(1) * ROWS).for_each(|x| {
                simd::vectorized(
                    #[inline(always)]
                    || {
                        for row in x.chunks_exact_mut(width) {
                            for head in row[columns.clone()].chunks_exact_mut(dim) {
                                let r = inverse_rms(head, norm.eps);
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

/// Returns the gradient of `x`, the input of [`forward`], and adds the gradient of the weight to `dw`, f32, in place.
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32 (kernels also accept bf16).
pub fn backward(x: &Tensor, w: &Tensor, norm: impl Into<RmsNorm>, dy: &Tensor, dw: &Tensor) -> Result<Tensor> {
    let (dim, norm) = (check(x, &(0..x.dim(1)?), w)?, norm.into());
    if dy.dims() != x.dims() || dw.dims() != [dim] {
        bail!("head_norm backward: x is {:?}, dy is {:?}, dw is {:?}", x.dims(), dy.dims(), dw.dims());
    }
    if let Some(kernels) = kernels::of(x.device())? {
        return launch_backward(&*kernels, (x, w, norm), dy, dw);
    }
    rms_norm::backward(&by_heads(x, dim)?, w, norm, &by_heads(dy, dim)?, None, dw)?.reshape(x.dims2()?)
}

// ── Kernel launches ──

const MODULE: Module = module!("head_norm");
/// Threads of a warp, which handles one head at a time.
const WARP: usize = 32;
/// Maximum head size of the backward pass, which keeps a partial weight gradient per warp in shared memory. A head of full
/// width is normalised by the kernels of [`rms_norm`].
const MAX_DIM: usize = 1024;

/// Checks number formats; returns the suffix of kernel names.
fn check_kernel(tensors: &[&Tensor]) -> Result<&'static str> {
    let dtype = tensors[0].dtype();
    if tensors.iter().any(|t| t.dtype() != dtype) {
        let dtypes: Vec<DType> = tensors.iter().map(|t| t.dtype()).collect();
        bail!("head_norm: kernels take one number format, not {dtypes:?}");
    }
    suffix(dtype)
}

fn launch_forward(kernels: &dyn Kernels, x: &Tensor, w: &Tensor, norm: RmsNorm) -> Result<Tensor> {
    let ((n, width), dim) = (x.dims2()?, w.dims1()?);
    if dim == width {
        return rms_norm::forward(x, w, norm);
    }
    let suffix = check_kernel(&[x, w])?;
    let y = kernels.empty(&[n, width], x.dtype())?;
    let sizes = [n, width / dim, dim].map(|size| Arg::U32(size as u32));
    kernels.launch(&Launch {
        kernel: format!("head_norm_forward_{suffix}"),
        grid: [blocks(n * (width / dim) * WARP, 1)?, 1, 1],
        args: &[&[Arg::In(x), Arg::In(w), Arg::Out(&y)], &sizes[..], &[Arg::F32(norm.eps), Arg::F32(norm.offset)]]
            .concat(),
        ..Launch::of(MODULE)
    })?;
    Ok(y)
}

fn launch_columns(kernels: &dyn Kernels, x: &Tensor, columns: Range<usize>, w: &Tensor, norm: RmsNorm) -> Result<()> {
    let ((n, width), dim) = (x.dims2()?, w.dims1()?);
    let suffix = check_kernel(&[x, w])?;
    let heads = columns.len() / dim;
    let sizes = [n, heads, dim, width, columns.start].map(|size| Arg::U32(size as u32));
    kernels.launch(&Launch {
        kernel: format!("head_norm_forward_columns_{suffix}"),
        grid: [blocks(n * heads * WARP, 1)?, 1, 1],
        args: &[&[Arg::Out(x), Arg::In(w)], &sizes[..], &[Arg::F32(norm.eps), Arg::F32(norm.offset)]].concat(),
        ..Launch::of(MODULE)
    })
}

fn launch_backward(
    kernels: &dyn Kernels,
    (x, w, norm): (&Tensor, &Tensor, RmsNorm),
    dy: &Tensor,
    dw: &Tensor,
) -> Result<Tensor> {
    let ((n, width), dim) = (x.dims2()?, w.dims1()?);
    if dim == width {
        return rms_norm::backward(x, w, norm, dy, None, dw);
    }
    if dim > MAX_DIM {
        bail!("head_norm: kernels take head sizes up to {MAX_DIM}, not {dim}");
    }
    let suffix = check_kernel(&[x, w, dy])?;
    let dx = kernels.empty(&[n, width], x.dtype())?;
    let (count, warps) = (n * (width / dim), THREADS as usize / WARP);
    let parts = count.div_ceil(warps).min(PARTS);
    let partial = kernels.empty(&[parts, dim], DType::F32)?;
    kernels.launch(&Launch {
        kernel: format!("head_norm_backward_{suffix}"),
        grid: [parts as u32, 1, 1],
        // Whole vectors of each head.
        shared_bytes: warps * dim.next_multiple_of(vector_len(x.dtype())) * size_of::<f32>(),
        args: &[
            Arg::In(x),
            Arg::In(w),
            Arg::In(dy),
            Arg::Out(&dx),
            Arg::Out(&partial),
            Arg::U64(count as u64),
            Arg::U32(dim as u32),
            Arg::F32(norm.eps),
            Arg::F32(norm.offset),
        ],
        ..Launch::of(MODULE)
    })?;
    sum_parts(kernels, &partial, dw)?;
    Ok(dx)
}
