//! Divides every row by its length, as `torch.nn.functional.normalize`: w / max(|w|, 1e-12). Used by the output head of
//! Baichuan2.

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use rayon::prelude::*;

use super::pool::Pooled;
use super::product::Element;
use super::{cpu, pool, simd};
use crate::kernels::{self, Arg, Kernels, Launch, Module, module, suffix};

/// Smallest divisor.
const SMALLEST: f32 = 1e-12;
/// Rows per task.
const ROWS: usize = 64;

fn check(w: &Tensor) -> Result<usize> {
    let (v, d) = w.dims2()?;
    if d == 0 {
        bail!("row_norm: w is [{v}, {d}]");
    }
    Ok(d)
}

/// The length of a row.
#[inline(always)]
fn length(w: &[f32]) -> f32 {
    simd::dot(w, w).sqrt()
}

/// max(length, [`SMALLEST`]), propagating NaN.
#[inline(always)]
fn divisor(length: f32) -> f32 {
    if length < SMALLEST { SMALLEST } else { length }
}

/// Normalizes the rows of `w` [V, D], in the number format of `w`; zero rows stay zero.
///
/// # Errors
/// A tensor that is not contiguous f32 or bf16.
pub fn forward(w: &Tensor) -> Result<Tensor> {
    let d = check(w)?;
    if let Some(kernels) = kernels::of(w.device())? {
        let normed = kernels.empty(w.dims(), w.dtype())?;
        launch(&*kernels, "forward", &[Arg::In(w), Arg::Out(&normed)], w)?;
        return Ok(normed);
    }
    match w.dtype() {
        DType::BF16 => forward_in::<bf16>(w, d),
        _ => forward_in::<f32>(w, d),
    }
}

/// [`forward`] on a CPU for one number format.
fn forward_in<T: Element + Pooled>(w: &Tensor, d: usize) -> Result<Tensor> {
    let mut normed = pool::values::<T>(w.elem_count());
    T::read(w, |w| {
        let tasks = normed.par_chunks_mut(d * ROWS).zip(w.par_chunks(d * ROWS));
        tasks.for_each_init(Vec::new, |scratch, (normed, w)| {
            simd::vectorized(
                #[inline(always)]
                || {
                    for (normed, w) in normed.chunks_exact_mut(d).zip(w.chunks_exact(d)) {
                        scratch.clear();
                        scratch.extend(w.iter().map(|w| w.widen()));
                        let divisor = divisor(length(scratch));
                        for (normed, w) in normed.iter_mut().zip(&*scratch) {
                            *normed = T::nearest(w / divisor);
                        }
                    }
                },
            );
        });
        Ok(())
    })?;
    cpu::tensor(normed, w.dims2()?)
}

/// Adds the gradient of `w` [V, D] to `dw` [V, D], given that of [`forward`]'s result; both f32.
///
/// With n = w/|w|: dw += (dn − n·(n·dn)) / |w|. Rows shorter than 1e-12 have a fixed divisor: dw += dn / 1e-12.
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32 (kernels also accept a `w` of bf16).
pub fn backward(w: &Tensor, dnormed: &Tensor, dw: &Tensor) -> Result<()> {
    let d = check(w)?;
    let f32s = dnormed.dtype() == DType::F32 && dw.dtype() == DType::F32;
    if dnormed.dims() != w.dims() || dw.dims() != w.dims() || !f32s {
        bail!("row_norm backward: w is {:?}, dnormed is {dnormed:?}, dw is {dw:?}", w.dims());
    }
    if let Some(kernels) = kernels::of(w.device())? {
        return launch(&*kernels, "backward", &[Arg::In(w), Arg::In(dnormed), Arg::Out(dw)], w);
    }
    cpu::read(w, |w| {
        cpu::read(dnormed, |dnormed| {
            cpu::update(dw, |dw| {
                dw.par_chunks_mut(d * ROWS).zip(w.par_chunks(d * ROWS)).zip(dnormed.par_chunks(d * ROWS)).for_each(
                    |((dw, w), dnormed)| {
                        simd::vectorized(
                            #[inline(always)]
                            || rows_backward(w, dnormed, dw, d),
                        );
                    },
                );
                Ok(())
            })
        })
    })
}

#[inline(always)]
fn rows_backward(w: &[f32], dnormed: &[f32], dw: &mut [f32], d: usize) {
    for ((w, dn), dw) in w.chunks_exact(d).zip(dnormed.chunks_exact(d)).zip(dw.chunks_exact_mut(d)) {
        let length = length(w);
        let along = if length < SMALLEST { 0.0 } else { simd::dot(w, dn) / length / length };
        let divisor = divisor(length);
        for ((dw, w), dn) in dw.iter_mut().zip(w).zip(dn) {
            *dw += (dn - w * along) / divisor;
        }
    }
}

// ── Kernel launches ──

const MODULE: Module = module!("row_norm");
/// Shared memory of a block reduction.
const SCRATCH_BYTES: usize = 32 * 4;

/// Launches a kernel with one block per row of `w`.
fn launch(kernels: &dyn Kernels, what: &str, tensors: &[Arg<'_>], w: &Tensor) -> Result<()> {
    let (v, d) = w.dims2()?;
    kernels.launch(&Launch {
        kernel: format!("row_norm_{what}_{}", suffix(w.dtype())?),
        grid: [v as u32, 1, 1],
        shared_bytes: SCRATCH_BYTES,
        args: &[tensors, &[Arg::U32(d as u32)]].concat(),
        ..Launch::of(MODULE)
    })
}
