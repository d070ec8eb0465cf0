//! Divides every row by its length, as `torch.nn.functional.normalize`: w / max(|w|, 1e-12). The output head of Baichuan2.

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use rayon::prelude::*;

use super::cpu::{self, Stored};
use super::product::Element;
use super::{cast, pool, simd};
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

/// max(length, [`SMALLEST`]), but NaN stays NaN.
#[inline(always)]
fn divisor(length: f32) -> f32 {
    if length < SMALLEST { SMALLEST } else { length }
}

/// `w` [V, D] → rows of length one [V, D]; rows of zeros stay zeros.
///
/// # Errors
/// A tensor that is not contiguous f32 (kernels also accept bf16).
pub fn forward(w: &Tensor) -> Result<Tensor> {
    let d = check(w)?;
    if let Some(kernels) = kernels::of(w.device())? {
        let normed = kernels.empty(w.dims(), w.dtype())?;
        launch(&*kernels, "forward", &[Arg::In(w), Arg::Out(&normed)], w)?;
        return Ok(normed);
    }
    let mut normed = pool::values(w.elem_count());
    cpu::read(w, |w| {
        normed.par_chunks_mut(d * ROWS).zip(w.par_chunks(d * ROWS)).for_each(|(normed, w)| {
            simd::vectorized(
                #[inline(always)]
                || {
                    for (normed, w) in normed.chunks_exact_mut(d).zip(w.chunks_exact(d)) {
                        let divisor = divisor(length(w));
                        for (normed, w) in normed.iter_mut().zip(w) {
                            *normed = w / divisor;
                        }
                    }
                },
            );
        });
        Ok(())
    })?;
    cpu::tensor(normed, w.dims2()?)
}

/// What [`forward`] divides each row of `w` [V, D] by, `[V]`. `w` is on the CPU, f32 or bf16.
///
/// # Errors
/// A tensor that is not contiguous, or of another format.
pub fn lengths(w: &Tensor) -> Result<Vec<f32>> {
    fn of_rows<T: Element>(w: &[T], d: usize) -> Vec<f32> {
        let row_length = |wide: &mut Vec<f32>, row: &[T]| {
            wide.clear();
            wide.extend(row.iter().map(|value| value.widen()));
            simd::vectorized(
                #[inline(always)]
                || divisor(length(wide)),
            )
        };
        w.par_chunks(d).map_init(Vec::new, row_length).collect()
    }
    let d = check(w)?;
    match w.dtype() {
        DType::BF16 => bf16::read(w, |w| Ok(of_rows(w, d))),
        _ => cpu::read(w, |w| Ok(of_rows(w, d))),
    }
}

/// As [`lengths`], of the rows converted to `dtype`. A few rows at a time are converted.
///
/// # Errors
/// As [`lengths`].
pub fn lengths_in(w: &Tensor, dtype: DType) -> Result<Vec<f32>> {
    /// Rows that are converted at a time.
    const ROWS: usize = 4096;
    if w.dtype() == dtype {
        return lengths(w);
    }
    let rows = w.dims2()?.0;
    let chunks = (0..rows).step_by(ROWS).map(|first| w.narrow(0, first, ROWS.min(rows - first)));
    let lengths = chunks.map(|chunk| lengths(&cast::converted(&chunk?, dtype)?)).collect::<Result<Vec<_>>>()?;
    Ok(lengths.concat())
}

/// Divides column j of `y` [N, V] by `divisors[j]`, in place on the CPU.
///
/// # Errors
/// Another number of divisors than columns, or a tensor that is not contiguous f32.
pub fn divide_columns(y: &Tensor, divisors: &[f32]) -> Result<()> {
    let (n, v) = y.dims2()?;
    if divisors.len() != v {
        bail!("row_norm: {} divisors for y [{n}, {v}]", divisors.len());
    }
    cpu::update(y, |y| {
        y.par_chunks_mut(v.max(1)).for_each(|row| {
            for (value, divisor) in row.iter_mut().zip(divisors) {
                *value /= divisor;
            }
        });
        Ok(())
    })
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

/// Launches a kernel with a block for each row of `w`.
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
