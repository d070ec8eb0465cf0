//! The output head: log-probabilities of target tokens, forward and backward. Only one chunk of the [tokens,
//! vocabulary] logit matrix is materialized at a time.
//!
//! A loss weights whole samples by functions of their mean log-probability, so the forward pass must finish before any
//! gradient is known. Small batches keep their logits for the backward pass; large ones recompute them.
//!
//! Shapes: M target tokens, D hidden size, V vocabulary.

mod device;
mod targets;

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use rayon::prelude::*;

use super::matmul::Arithmetic;
use super::pool::recycle;
use super::product::{CpuPath, Element};
use super::{cpu, matmul, pool, simd};
use crate::kernels::{self, Accumulate};
use crate::sample::restrict;

pub use targets::Targets;

/// Maximum elements of a chunk of logits on a CPU (16 MiB of f32). A chunk has at least 16 rows.
const CHUNK_ELEMENTS: usize = 1 << 22;
/// Batches with at most this many logits keep them for the backward pass (64 MiB of f32), on a CPU.
pub const KEEP_ELEMENTS: usize = 1 << 24;
/// Maximum elements of a chunk of logits on a GPU (512 MiB of f32). A single chunk is kept for the backward pass, because
/// recomputing it would need as much memory.
pub const DEVICE_CHUNK_ELEMENTS: usize = 1 << 27;

/// Extra bytes per logit gradient if this CPU multiplies a bf16 head with bf16 instructions: the rounded gradient. Other paths
/// round while packing.
pub fn rounded_gradient_bytes() -> u64 {
    if CpuPath::current() >= CpuPath::Avx512Bf16 { 2 } else { 0 }
}

/// Log-probabilities of the targets, and state for the backward pass.
#[derive(Debug)]
pub struct LogProbs {
    /// ln p(target) under the row's distribution, `[M]`, f32, on the model's device.
    pub values: Tensor,
    lse: Tensor,
    kept: Vec<Tensor>,
    /// The targets on the device, if kernels are used.
    targets: Option<Tensor>,
}

fn check(hidden: &Tensor, head: &Tensor, targets: Targets<'_>) -> Result<(usize, usize)> {
    let ((m, d), (v, hd)) = (hidden.dims2()?, head.dims2()?);
    if d != hd || targets.len() != m {
        bail!("log_prob: hidden is [{m}, {d}], head is [{v}, {hd}], {} targets", targets.len());
    }
    targets.check()?;
    if let Some(t) = targets.tokens.iter().find(|t| **t as usize >= v) {
        bail!("log_prob: target token {t} is outside the vocabulary of {v}");
    }
    Ok((m, v))
}

/// Rows per chunk of logits on a CPU, for a vocabulary of `v`.
pub fn chunk_rows(v: usize) -> usize {
    (CHUNK_ELEMENTS / v.max(1)).clamp(16, 8192)
}

/// Log-probabilities for `hidden` [M, D], `head` [V, D] and one target token per row, under the row's sampling
/// distribution.
///
/// # Errors
/// Mismatched shapes, a target outside the vocabulary, a greedy distribution, or tensors that are not contiguous f32 (kernels also
/// accept bf16).
pub fn forward<'a>(hidden: &Tensor, head: &Tensor, targets: impl Into<Targets<'a>>) -> Result<LogProbs> {
    let targets = targets.into();
    let (m, v) = check(hidden, head, targets)?;
    if let Some(kernels) = kernels::of(hidden.device())? {
        return device::forward(&*kernels, (hidden, head, targets), device::Keep::ForBackward);
    }
    let (mut values, mut lse, mut kept) = (vec![0.0; m], vec![0.0; m], Vec::new());
    let chunks = values.chunks_mut(chunk_rows(v)).zip(lse.chunks_mut(chunk_rows(v)));
    for ((values, lse), (start, targets)) in chunks.zip(chunks_of(targets, v)) {
        let logits = chunk_forward(&hidden.narrow(0, start, targets.len())?, head, targets, values, lse)?;
        if m * v <= KEEP_ELEMENTS {
            kept.push(logits);
        } else {
            recycle(logits)?;
        }
    }
    Ok(LogProbs { values: cpu::tensor(values, m)?, lse: cpu::tensor(lse, m)?, kept, targets: None })
}

/// [`forward`] without state for a backward pass.
pub fn values<'a>(hidden: &Tensor, head: &Tensor, targets: impl Into<Targets<'a>>) -> Result<Tensor> {
    let targets = targets.into();
    let (m, v) = check(hidden, head, targets)?;
    if let Some(kernels) = kernels::of(hidden.device())? {
        return Ok(device::forward(&*kernels, (hidden, head, targets), device::Keep::Nothing)?.values);
    }
    let (mut all, mut lse) = (vec![0.0; m], vec![0.0; chunk_rows(v)]);
    for (values, (start, targets)) in all.chunks_mut(chunk_rows(v)).zip(chunks_of(targets, v)) {
        let hidden = hidden.narrow(0, start, targets.len())?;
        recycle(chunk_forward(&hidden, head, targets, values, &mut lse[..targets.len()])?)?;
    }
    cpu::tensor(all, m)
}

/// Chunks of the targets, each with the index of its first target.
fn chunks_of(targets: Targets<'_>, v: usize) -> impl Iterator<Item = (usize, Targets<'_>)> {
    let rows = chunk_rows(v);
    let starts = (0..targets.len()).step_by(rows);
    starts.map(move |start| (start, targets.rows(start..targets.len().min(start + rows))))
}

/// The logits of a chunk, adjusted so that their softmax is the distribution of each row, and their log-sum-exps where known.
fn chunk_logits(hidden: &Tensor, head: &Tensor, targets: Targets<'_>) -> Result<(Tensor, Vec<Option<f32>>)> {
    let logits = matmul::linear(hidden, head)?;
    let known = match targets.distributions {
        [] => vec![None; targets.len()],
        distributions => restrict(&logits, distributions, targets.tokens)?,
    };
    Ok((logits, known))
}

/// Computes the logits of a chunk and fills in its log-probabilities and log-sum-exps.
fn chunk_forward(
    hidden: &Tensor,
    head: &Tensor,
    targets: Targets<'_>,
    values: &mut [f32],
    lse: &mut [f32],
) -> Result<Tensor> {
    let (logits, known) = chunk_logits(hidden, head, targets)?;
    let v = head.dim(0)?;
    cpu::read(&logits, |logits| {
        values.par_iter_mut().zip(lse).zip(logits.par_chunks_exact(v)).zip(targets.tokens).zip(known).for_each(
            |((((value, lse), row), target), known)| {
                let of_row = || {
                    simd::vectorized(
                        #[inline(always)]
                        || log_sum_exp(row),
                    )
                };
                *lse = known.unwrap_or_else(of_row);
                *value = row[*target as usize] - *lse;
            },
        );
        Ok(())
    })?;
    Ok(logits)
}

#[inline(always)]
fn log_sum_exp(row: &[f32]) -> f32 {
    let top = simd::max(row);
    top + simd::sum_of(row, |x| simd::exp(x - top)).ln()
}

/// Returns the gradient of `hidden`, given ∂loss/∂log-probability of each row, `[M]`, f32. Adds the gradient of the
/// head to `dhead`, unless the head is frozen.
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32.
pub fn backward<'a>(
    forward: LogProbs,
    hidden: &Tensor,
    head: &Tensor,
    targets: impl Into<Targets<'a>>,
    upstream: &Tensor,
    dhead: Option<&Tensor>,
) -> Result<Tensor> {
    let targets = targets.into();
    let (m, _) = check(hidden, head, targets)?;
    if upstream.dims() != [m] || forward.lse.dims() != [m] {
        bail!("log_prob backward: {m} rows, gradients {:?}, log-sum-exps {:?}", upstream.dims(), forward.lse.dims());
    }
    if upstream.dtype() != DType::F32 {
        bail!("log_prob backward: the gradients of log-probabilities are {:?}, not f32", upstream.dtype());
    }
    // The chain rule through the division by the temperature.
    let scaled = match targets.inverse_temperatures() {
        Some(inverse) => &(upstream * Tensor::from_vec(inverse, m, upstream.device())?)?,
        None => upstream,
    };
    if let Some(kernels) = kernels::of(hidden.device())? {
        return device::backward(&*kernels, forward, (hidden, head, targets), scaled, dhead);
    }
    cpu::read(scaled, |upstream| {
        cpu::read(&forward.lse, |lse| rows_backward(forward.kept, (lse, upstream), hidden, head, targets, dhead))
    })
}

/// The gradients of logits [M, V] as operands of products: rounded to bf16 if multiplied in bf16, else in the memory of the
/// logits.
fn gradients(
    logits: Tensor,
    arithmetic: Arithmetic,
    targets: &[u32],
    (lse, upstream): (&[f32], &[f32]),
) -> Result<Tensor> {
    let (m, v) = logits.dims2()?;
    let of_logit = |logit: f32, row: usize| -upstream[row] * simd::exp(logit - lse[row]);
    match arithmetic {
        Arithmetic::Bf16 if CpuPath::current() >= CpuPath::Avx512Bf16 => {
            let mut rounded = pool::values::<bf16>(m * v);
            cpu::read(&logits, |logits| {
                let rows = rounded.par_chunks_exact_mut(v).zip(logits.par_chunks_exact(v)).enumerate();
                rows.for_each(|(i, (row, logits))| {
                    simd::vectorized(
                        #[inline(always)]
                        || {
                            for (gradient, logit) in row.iter_mut().zip(logits) {
                                *gradient = of_logit(*logit, i).narrow();
                            }
                        },
                    );
                    let target = targets[i] as usize;
                    row[target] = (of_logit(logits[target], i) + upstream[i]).narrow();
                });
                Ok(())
            })?;
            recycle(logits)?;
            cpu::tensor(rounded, (m, v))
        }
        Arithmetic::F32 | Arithmetic::Bf16 => {
            cpu::update(&logits, |logits| {
                logits.par_chunks_exact_mut(v).enumerate().for_each(|(i, row)| {
                    simd::vectorized(
                        #[inline(always)]
                        || row.iter_mut().for_each(|logit| *logit = of_logit(*logit, i)),
                    );
                    row[targets[i] as usize] += upstream[i];
                });
                Ok(())
            })?;
            Ok(logits)
        }
    }
}

/// The CPU version of [`backward`], given the log-sum-exp and the gradient of each row.
fn rows_backward(
    kept: Vec<Tensor>,
    (lse, upstream): (&[f32], &[f32]),
    hidden: &Tensor,
    head: &Tensor,
    targets: Targets<'_>,
    dhead: Option<&Tensor>,
) -> Result<Tensor> {
    let v = head.dim(0)?;
    let mut kept = kept.into_iter();
    let mut dhidden = Vec::new();
    for (start, targets) in chunks_of(targets, v) {
        let x = hidden.narrow(0, start, targets.len())?;
        let logits = match kept.next() {
            Some(kept) => kept,
            None => chunk_logits(&x, head, targets)?.0,
        };
        let rows = start..start + targets.len();
        let gradients = gradients(logits, Arithmetic::of(head), targets.tokens, (&lse[rows.clone()], &upstream[rows]))?;
        if let Some(dhead) = dhead {
            matmul::linear_backward_weight(&gradients, &x, (dhead, Accumulate::Yes), Arithmetic::of(head))?;
        }
        dhidden.push(matmul::linear_backward_input(&[(&gradients, head)])?);
        recycle(gradients)?;
    }
    match dhidden.len() {
        0 => cpu::tensor(Vec::<f32>::new(), (0, hidden.dim(1)?)),
        1 => Ok(dhidden.remove(0)),
        _ => {
            let all = Tensor::cat(&dhidden, 0)?;
            dhidden.into_iter().try_for_each(recycle)?;
            Ok(all)
        }
    }
}
