//! RMSNorm: y = x / √(mean(x²) + ε) · w, row by row (Zhang and Sennrich 2019).

use std::borrow::Cow;

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use rayon::prelude::*;

use super::accumulate::add_into;
use super::pool::Pooled;
use super::product::Element;
use super::{cpu, pool, simd};
use crate::kernels::{self, Arg, Kernels, Launch, Module, module, suffix, vector_len};

/// Rows per task. Weight gradients are summed per task to fix the summation order.
const ROWS: usize = 64;

/// The constants of a norm. Converted from an ε alone, the offset is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsNorm {
    /// ε, added to the mean square.
    pub eps: f32,
    /// Added to every weight: 1 if the stored weights are relative to one.
    pub offset: f32,
}

impl From<f32> for RmsNorm {
    fn from(eps: f32) -> Self {
        Self { eps, offset: 0.0 }
    }
}

impl RmsNorm {
    /// The effective weights, with the offset added.
    pub(super) fn factors<'a>(&self, weights: &'a [f32]) -> Cow<'a, [f32]> {
        match self.offset {
            0.0 => Cow::Borrowed(weights),
            offset => Cow::Owned(weights.iter().map(|w| w + offset).collect()),
        }
    }
}

fn check(x: &Tensor, w: &Tensor) -> Result<usize> {
    let (n, d) = x.dims2()?;
    if w.dims() != [d] || d == 0 {
        bail!("rms_norm: x is [{n}, {d}], w is {:?}", w.dims());
    }
    Ok(d)
}

/// An element of the result, given the inverse root mean square of its row.
#[inline(always)]
pub(super) fn scaled(x: f32, inverse: f32, w: f32) -> f32 {
    x * inverse * w
}

#[inline(always)]
pub(super) fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    1.0 / (simd::dot(x, x) / x.len() as f32 + eps).sqrt()
}

/// `x` [N, D], `w` `[D]` → [N, D].
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32 (kernels also accept bf16).
pub fn forward(x: &Tensor, w: &Tensor, norm: impl Into<RmsNorm>) -> Result<Tensor> {
    check(x, w)?;
    let norm = norm.into();
    match kernels::of(x.device())? {
        Some(kernels) => launch_forward(&*kernels, (x, w, norm), None, None),
        None => forward_in::<f32>(x, w, norm),
    }
}

/// `residual` plus the result of [`forward`], all [N, D].
///
/// # Errors
/// As [`forward`].
pub fn forward_add(residual: &Tensor, x: &Tensor, w: &Tensor, norm: impl Into<RmsNorm>) -> Result<Tensor> {
    check(x, w)?;
    if residual.dims() != x.dims() {
        bail!("rms_norm: x is {:?}, the residual {:?}", x.dims(), residual.dims());
    }
    let norm = norm.into();
    if let Some(kernels) = kernels::of(x.device())? {
        return launch_forward(&*kernels, (x, w, norm), Some(residual), None);
    }
    let sum = forward_in::<f32>(x, w, norm)?;
    add_into(residual, &sum)?;
    Ok(sum)
}

/// [`forward`] with a copy of `x`, to which later results can be added in place.
///
/// # Errors
/// As [`forward`].
pub fn forward_and_copy(x: &Tensor, w: &Tensor, norm: impl Into<RmsNorm>) -> Result<(Tensor, Tensor)> {
    check(x, w)?;
    let Some(kernels) = kernels::of(x.device())? else { return Ok((forward(x, w, norm)?, x.force_contiguous()?)) };
    let copy = kernels.empty(x.dims(), x.dtype())?;
    Ok((launch_forward(&*kernels, (x, w, norm.into()), None, Some(&copy))?, copy))
}

/// [`forward`] for products with `weight`: on a CPU the result is in the number format of `weight`, to which they would
/// round it anyway.
///
/// # Errors
/// As [`forward`].
pub fn forward_for(weight: &Tensor, x: &Tensor, w: &Tensor, norm: RmsNorm) -> Result<Tensor> {
    check(x, w)?;
    match kernels::of(x.device())? {
        None if weight.dtype() == DType::BF16 => forward_in::<bf16>(x, w, norm),
        _ => forward(x, w, norm),
    }
}

/// [`forward`] on a CPU for one number format.
fn forward_in<T: Element + Pooled>(x: &Tensor, w: &Tensor, norm: RmsNorm) -> Result<Tensor> {
    let (_, d) = x.dims2()?;
    let mut y = pool::values::<T>(x.elem_count());
    cpu::read(x, |x| {
        cpu::read(w, |w| {
            let w = &*norm.factors(w);
            y.par_chunks_mut(d * ROWS).zip(x.par_chunks(d * ROWS)).for_each(|(y, x)| {
                simd::vectorized(
                    #[inline(always)]
                    || {
                        for (y, x) in y.chunks_exact_mut(d).zip(x.chunks_exact(d)) {
                            let r = inverse_rms(x, norm.eps);
                            for ((y, x), w) in y.iter_mut().zip(x).zip(w) {
                                *y = T::nearest(scaled(*x, r, *w));
                            }
                        }
                    },
                );
            });
            Ok(())
        })
    })?;
    cpu::tensor(y, x.dims2()?)
}

/// Returns the gradient of the input plus `residual`, and adds the gradient of the weight to `dw` in place.
///
/// `residual` [N, D] is the gradient of the residual connection. Adding it here saves a pass over memory.
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32.
pub fn backward(
    x: &Tensor,
    w: &Tensor,
    norm: impl Into<RmsNorm>,
    dy: &Tensor,
    residual: Option<&Tensor>,
    dw: &Tensor,
) -> Result<Tensor> {
    let (d, norm) = (check(x, w)?, norm.into());
    if dy.dims() != x.dims() || dw.dims() != [d] || residual.is_some_and(|r| r.dims() != x.dims()) {
        bail!("rms_norm backward: x is {:?}, dy is {:?}, dw is {:?}", x.dims(), dy.dims(), dw.dims());
    }
    if let Some(kernels) = kernels::of(x.device())? {
        return launch_backward(&*kernels, (x, w, norm), dy, residual, dw, None);
    }
    let mut dx = pool::values(x.elem_count());
    let tasks = x.dim(0)?.div_ceil(ROWS);
    let mut partial = vec![0f32; tasks * d];
    let mut run = |residual: Option<&[f32]>| {
        cpu::read(x, |x| {
            cpu::read(w, |w| {
                let w = &*norm.factors(w);
                cpu::read(dy, |dy| {
                    dx.par_chunks_mut(d * ROWS)
                        .zip(x.par_chunks(d * ROWS))
                        .zip(dy.par_chunks(d * ROWS))
                        .zip(partial.par_chunks_mut(d))
                        .enumerate()
                        .for_each(|(task, (((dx, x), dy), dw))| {
                            match residual {
                                Some(residual) => dx.copy_from_slice(&residual[task * d * ROWS..][..dx.len()]),
                                None => dx.fill(0.0),
                            }
                            simd::vectorized(
                                #[inline(always)]
                                || rows_backward(x, w, norm.eps, dy, dx, dw),
                            );
                        });
                    Ok(())
                })
            })
        })
    };
    match residual {
        Some(residual) => cpu::read(residual, |residual| run(Some(residual)))?,
        None => run(None)?,
    }
    cpu::update(dw, |dw| {
        for part in partial.chunks_exact(d) {
            for (dw, p) in dw.iter_mut().zip(part) {
                *dw += p;
            }
        }
        Ok(())
    })?;
    cpu::tensor(dx, x.dims2()?)
}

/// [`backward`] with a residual, which also recomputes the result of [`forward`].
///
/// # Errors
/// As [`backward`].
pub fn backward_and_forward(
    x: &Tensor,
    w: &Tensor,
    norm: RmsNorm,
    (dy, residual): (&Tensor, &Tensor),
    dw: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let fits = dy.dims() == x.dims() && residual.dims() == x.dims() && dw.dims() == w.dims();
    match kernels::of(x.device())? {
        Some(kernels) if fits => {
            check(x, w)?;
            let y = kernels.empty(x.dims(), x.dtype())?;
            Ok((launch_backward(&*kernels, (x, w, norm), dy, Some(residual), dw, Some(&y))?, y))
        }
        _ => Ok((backward(x, w, norm, dy, Some(residual), dw)?, forward(x, w, norm)?)),
    }
}

/// With r = 1/√(mean x² + ε): dx = r·(g·w − x·r²·mean(g·w·x)), dw = Σ g·x·r.
#[inline(always)]
fn rows_backward(x: &[f32], w: &[f32], eps: f32, dy: &[f32], dx: &mut [f32], dw: &mut [f32]) {
    let d = w.len();
    let mut gw = vec![0f32; d];
    for ((x, g), dx) in x.chunks_exact(d).zip(dy.chunks_exact(d)).zip(dx.chunks_exact_mut(d)) {
        let r = inverse_rms(x, eps);
        for i in 0..d {
            gw[i] = g[i] * w[i];
        }
        let c = simd::dot(&gw, x) * r * r / d as f32;
        for i in 0..d {
            dw[i] += g[i] * x[i] * r;
            dx[i] += r * (gw[i] - x[i] * c);
        }
    }
}

// ── Kernel launches ──

const MODULE: Module = module!("rms_norm");
/// Maximum number of blocks of the backward pass, each with a partial weight gradient.
pub(super) const PARTS: usize = 264;
/// Threads of a warp.
const WARP: usize = 32;
/// Variants of the kernels: vectors of 16 bytes that a thread keeps in registers, and the most threads of a block.
const VARIANTS: [(usize, usize); 3] = [(1, 256), (2, 512), (4, 1024)];
/// Threads of a block that adds partial gradients.
const SUM_THREADS: u32 = 512;

/// Which kernels handle rows of a length.
struct Variant {
    /// The part of kernels' names.
    suffix: String,
    threads: u32,
}

impl Variant {
    /// The variant for `d` columns.
    fn of(d: usize, dtype: DType) -> Result<Self> {
        let vectors = d.div_ceil(vector_len(dtype));
        let Some((kept, _)) = VARIANTS.into_iter().find(|(kept, threads)| vectors <= kept * threads) else {
            bail!("rms_norm: {d} columns of {dtype:?}, more than kernels take")
        };
        let threads = vectors.div_ceil(kept).next_multiple_of(WARP) as u32;
        Ok(Self { suffix: format!("{kept}_{}", suffix(dtype)?), threads })
    }

    /// Shared memory of a sum over a block, in bytes, for `sums` of them.
    fn scratch_bytes(sums: usize) -> usize {
        sums * WARP * size_of::<f32>()
    }
}

fn launch_forward(
    kernels: &dyn Kernels,
    (x, w, norm): (&Tensor, &Tensor, RmsNorm),
    residual: Option<&Tensor>,
    copy: Option<&Tensor>,
) -> Result<Tensor> {
    let (n, d) = x.dims2()?;
    let variant = Variant::of(d, x.dtype())?;
    let y = kernels.empty(&[n, d], x.dtype())?;
    kernels.launch(&Launch {
        kernel: format!("rms_norm_forward_{}", variant.suffix),
        grid: [n as u32, 1, 1],
        block: variant.threads,
        shared_bytes: Variant::scratch_bytes(1),
        args: &[
            Arg::In(x),
            Arg::In(w),
            residual.map_or(Arg::Null, Arg::In),
            Arg::Out(&y),
            copy.map_or(Arg::Null, Arg::Out),
            Arg::U32(d as u32),
            Arg::F32(norm.eps),
            Arg::F32(norm.offset),
        ],
        ..Launch::of(MODULE)
    })?;
    Ok(y)
}

fn launch_backward(
    kernels: &dyn Kernels,
    (x, w, norm): (&Tensor, &Tensor, RmsNorm),
    dy: &Tensor,
    residual: Option<&Tensor>,
    dw: &Tensor,
    y: Option<&Tensor>,
) -> Result<Tensor> {
    let (n, d) = x.dims2()?;
    let variant = Variant::of(d, x.dtype())?;
    let dx = kernels.empty(&[n, d], x.dtype())?;
    let parts = n.min(PARTS);
    let partial = kernels.empty(&[parts, d], DType::F32)?;
    kernels.launch(&Launch {
        kernel: format!("rms_norm_backward_{}", variant.suffix),
        grid: [parts as u32, 1, 1],
        block: variant.threads,
        // Two sums for each of two rows.
        shared_bytes: Variant::scratch_bytes(4),
        args: &[
            Arg::In(x),
            Arg::In(w),
            Arg::In(dy),
            residual.map_or(Arg::Null, Arg::In),
            Arg::Out(&dx),
            y.map_or(Arg::Null, Arg::Out),
            Arg::Out(&partial),
            Arg::U32(n as u32),
            Arg::U32(d as u32),
            Arg::F32(norm.eps),
            Arg::F32(norm.offset),
        ],
        ..Launch::of(MODULE)
    })?;
    sum_parts(kernels, &partial, dw)?;
    pool::recycle(partial)?;
    Ok(dx)
}

/// Adds the rows of `partial` [parts, D] to `to` `[D]` in a fixed order; both f32.
pub(super) fn sum_parts(kernels: &dyn Kernels, partial: &Tensor, to: &Tensor) -> Result<()> {
    let (parts, d) = partial.dims2()?;
    kernels.launch(&Launch {
        kernel: "rms_norm_sum_parts".into(),
        grid: [d.div_ceil(WARP) as u32, 1, 1],
        block: SUM_THREADS,
        shared_bytes: SUM_THREADS as usize * size_of::<f32>(),
        args: &[Arg::In(partial), Arg::Out(to), Arg::U32(parts as u32), Arg::U32(d as u32)],
        ..Launch::of(MODULE)
    })
}
