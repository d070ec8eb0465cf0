//! The output head: log-probabilities of target tokens, forward and backward. Only one chunk of the [tokens,
//! vocabulary] matrix of logits exists at a time.
//!
//! A loss weights whole samples by functions of their mean log-probability, so the forward pass must finish before any
//! gradient is known. Small batches keep their logits for the backward pass; large ones recompute them.
//!
//! Shapes: M target tokens, D hidden size, V vocabulary.

mod device;

use candle_core::{DType, Result, Tensor, bail};
use rayon::prelude::*;

use super::pool::recycle;
use super::{cpu, matmul, simd};
use crate::kernels;

/// Maximum elements of a chunk of logits on a CPU (16 MiB of f32). A chunk has at least 16 rows.
const CHUNK_ELEMENTS: usize = 1 << 22;
/// Batches with at most this many logits keep them for the backward pass (64 MiB of f32), on a CPU.
pub const KEEP_ELEMENTS: usize = 1 << 24;
/// Maximum elements of a chunk of logits on a GPU (512 MiB of f32). A single chunk is kept for the backward pass, because
/// recomputing it would need as much memory.
pub const DEVICE_CHUNK_ELEMENTS: usize = 1 << 27;

/// Log-probabilities of the targets, and state for the backward pass.
#[derive(Debug)]
pub struct LogProbs {
    /// ln p(target) under softmax of the row's logits, `[M]`, f32, on the model's device.
    pub values: Tensor,
    lse: Tensor,
    kept: Vec<Tensor>,
    /// The targets on the device, if kernels are used.
    targets: Option<Tensor>,
}

fn check(hidden: &Tensor, head: &Tensor, targets: &[u32]) -> Result<(usize, usize)> {
    let ((m, d), (v, hd)) = (hidden.dims2()?, head.dims2()?);
    if d != hd || targets.len() != m {
        bail!("log_prob: hidden is [{m}, {d}], head is [{v}, {hd}], {} targets", targets.len());
    }
    if let Some(t) = targets.iter().find(|t| **t as usize >= v) {
        bail!("log_prob: target token {t} is outside the vocabulary of {v}");
    }
    Ok((m, v))
}

/// Rows of a chunk of logits on a CPU, for a vocabulary of `v`.
pub fn chunk_rows(v: usize) -> usize {
    (CHUNK_ELEMENTS / v.max(1)).clamp(16, 8192)
}

/// Log-probabilities for `hidden` [M, D], `head` [V, D] and one target token per row.
///
/// # Errors
/// Mismatched shapes, a target outside the vocabulary, or tensors that are not contiguous f32 (kernels also accept
/// bf16).
pub fn forward(hidden: &Tensor, head: &Tensor, targets: &[u32]) -> Result<LogProbs> {
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

/// As [`forward`], without state for a backward pass.
pub fn values(hidden: &Tensor, head: &Tensor, targets: &[u32]) -> Result<Tensor> {
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
fn chunks_of(targets: &[u32], v: usize) -> impl Iterator<Item = (usize, &[u32])> {
    targets.chunks(chunk_rows(v)).enumerate().map(move |(index, chunk)| (index * chunk_rows(v), chunk))
}

/// Computes the logits of a chunk and fills in its log-probabilities and log-sum-exps.
fn chunk_forward(
    hidden: &Tensor,
    head: &Tensor,
    targets: &[u32],
    values: &mut [f32],
    lse: &mut [f32],
) -> Result<Tensor> {
    let logits = matmul::linear(hidden, head)?;
    let v = head.dim(0)?;
    cpu::read(&logits, |logits| {
        values.par_iter_mut().zip(lse).zip(logits.par_chunks_exact(v)).zip(targets).for_each(
            |(((value, lse), row), target)| {
                *lse = simd::vectorized(
                    #[inline(always)]
                    || log_sum_exp(row),
                );
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
/// head to `dhead`.
///
/// # Errors
/// Mismatched shapes, or tensors that are not contiguous f32.
pub fn backward(
    forward: LogProbs,
    hidden: &Tensor,
    head: &Tensor,
    targets: &[u32],
    upstream: &Tensor,
    dhead: &Tensor,
) -> Result<Tensor> {
    let (m, _) = check(hidden, head, targets)?;
    if upstream.dims() != [m] || forward.lse.dims() != [m] {
        bail!("log_prob backward: {m} rows, gradients {:?}, log-sum-exps {:?}", upstream.dims(), forward.lse.dims());
    }
    if upstream.dtype() != DType::F32 {
        bail!("log_prob backward: the gradients of log-probabilities are {:?}, not f32", upstream.dtype());
    }
    if let Some(kernels) = kernels::of(hidden.device())? {
        return device::backward(&*kernels, forward, (hidden, head, targets), upstream, dhead);
    }
    cpu::read(upstream, |upstream| {
        cpu::read(&forward.lse, |lse| rows_backward(forward.kept, (lse, upstream), hidden, head, targets, dhead))
    })
}

/// The CPU version of [`backward`], with the log-sum-exp and the gradient of each row.
fn rows_backward(
    kept: Vec<Tensor>,
    (lse, upstream): (&[f32], &[f32]),
    hidden: &Tensor,
    head: &Tensor,
    targets: &[u32],
    dhead: &Tensor,
) -> Result<Tensor> {
    let v = head.dim(0)?;
    let mut kept = kept.into_iter();
    let mut dhidden = Vec::new();
    for (start, targets) in chunks_of(targets, v) {
        let x = hidden.narrow(0, start, targets.len())?;
        let logits = match kept.next() {
            Some(kept) => kept,
            None => matmul::linear(&x, head)?,
        };
        // In place: logits become their gradients.
        cpu::update(&logits, |logits| {
            logits.par_chunks_exact_mut(v).enumerate().for_each(|(i, row)| {
                let (lse, g) = (lse[start + i], upstream[start + i]);
                simd::vectorized(
                    #[inline(always)]
                    || {
                        for l in row.iter_mut() {
                            *l = -g * simd::exp(*l - lse);
                        }
                    },
                );
                row[targets[i] as usize] += g;
            });
            Ok(())
        })?;
        matmul::linear_backward_weight(&logits, &x, dhead, matmul::Arithmetic::of(head))?;
        dhidden.push(matmul::linear_backward_input(&[(&logits, head)])?);
        recycle(logits)?;
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
