//! The output head: log-probabilities of given target tokens, forward and backward, without a [tokens, vocabulary]
//! matrix of more than one chunk.
//!
//! The losses weigh whole samples by functions of their mean log-probability, so the forward pass must end before the
//! gradient of a single token is known. Small batches keep their logits in between; large ones compute them again.
//!
//! Shapes: M predicted tokens, D hidden size, V vocabulary.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::{cpu, matmul, simd};

/// Logits of at most this many elements exist at a time (16 MiB of f32).
const CHUNK_ELEMENTS: usize = 1 << 22;
/// Batches whose logits have at most this many elements keep them for the backward pass (64 MiB of f32).
const KEEP_ELEMENTS: usize = 1 << 24;

/// Log-probabilities of the targets and what the backward pass needs.
#[derive(Debug)]
pub struct LogProbs {
    /// ln p(target) under the softmax of the row's logits, `[M]`.
    pub values: Vec<f32>,
    lse: Vec<f32>,
    kept: Vec<Tensor>,
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

fn chunk_rows(v: usize) -> usize {
    (CHUNK_ELEMENTS / v.max(1)).clamp(16, 8192)
}

/// `hidden` [M, D], `head` [V, D], one target token a row.
///
/// # Errors
/// Shapes that do not fit, a target outside the vocabulary, or tensors that are not contiguous f32.
pub fn forward(hidden: &Tensor, head: &Tensor, targets: &[u32]) -> Result<LogProbs> {
    let (m, v) = check(hidden, head, targets)?;
    let mut result = LogProbs { values: vec![0.0; m], lse: vec![0.0; m], kept: Vec::new() };
    let rows = chunk_rows(v);
    for start in (0..m).step_by(rows) {
        let count = rows.min(m - start);
        let logits = matmul::linear(&hidden.narrow(0, start, count)?, head)?;
        cpu::read(&logits, |logits| {
            let chunk = start..start + count;
            result.values[chunk.clone()]
                .par_iter_mut()
                .zip(&mut result.lse[chunk.clone()])
                .zip(logits.par_chunks_exact(v))
                .zip(&targets[chunk])
                .for_each(|(((value, lse), row), target)| {
                    *lse = simd::vectorized(
                        #[inline(always)]
                        || log_sum_exp(row),
                    );
                    *value = row[*target as usize] - *lse;
                });
            Ok(())
        })?;
        if m * v <= KEEP_ELEMENTS {
            result.kept.push(logits);
        }
    }
    Ok(result)
}

#[inline(always)]
fn log_sum_exp(row: &[f32]) -> f32 {
    let top = simd::max(row);
    top + simd::sum_of(row, |x| simd::exp(x - top)).ln()
}

/// The gradient of `hidden`, given ∂loss/∂log-probability of each row; adds the gradient of the head to `dhead`.
///
/// # Errors
/// Shapes that do not fit, or tensors that are not contiguous f32.
pub fn backward(
    forward: &LogProbs,
    hidden: &Tensor,
    head: &Tensor,
    targets: &[u32],
    upstream: &[f32],
    dhead: &Tensor,
) -> Result<Tensor> {
    let (m, v) = check(hidden, head, targets)?;
    if upstream.len() != m || forward.lse.len() != m {
        bail!("log_prob backward: {m} rows, {} gradients, {} log-sum-exps", upstream.len(), forward.lse.len());
    }
    let rows = chunk_rows(v);
    let mut dhidden = Vec::new();
    for (index, start) in (0..m).step_by(rows).enumerate() {
        let count = rows.min(m - start);
        let x = hidden.narrow(0, start, count)?;
        let logits = match forward.kept.get(index) {
            Some(kept) => kept.copy()?,
            None => matmul::linear(&x, head)?,
        };
        cpu::update(&logits, |logits| {
            logits.par_chunks_exact_mut(v).enumerate().for_each(|(i, row)| {
                let (lse, g) = (forward.lse[start + i], upstream[start + i]);
                simd::vectorized(
                    #[inline(always)]
                    || {
                        for l in row.iter_mut() {
                            *l = -g * simd::exp(*l - lse);
                        }
                    },
                );
                row[targets[start + i] as usize] += g;
            });
            Ok(())
        })?;
        matmul::linear_backward_weight(&logits, &x, dhead)?;
        dhidden.push(matmul::linear_backward_input(&[(&logits, head)])?);
    }
    match dhidden.len() {
        0 => cpu::tensor(Vec::new(), (0, hidden.dim(1)?)),
        1 => Ok(dhidden.remove(0)),
        _ => Tensor::cat(&dhidden, 0),
    }
}
