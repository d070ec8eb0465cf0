//! Transforms logits so that their softmax is the sampling distribution.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::{Distribution, Sampling, device, row};
use crate::cpu;
use crate::kernels::Kernels;

/// Transforms logits [M, V], f32, in place so that the softmax of each row is its distribution, `[M]`: shifted, divided by the
/// temperature, and −∞ for excluded tokens. The row's target, `[M]`, is never excluded. Rows with the model's own distribution are
/// unchanged.
///
/// Returns each row's log-sum-exp; NaN if logits are not finite, `None` for an unchanged row.
///
/// # Errors
/// A greedy distribution, which has no log-probabilities; wrong lengths; or a tensor that is not contiguous f32.
pub(crate) fn restrict(logits: &Tensor, distributions: &[Distribution], targets: &[u32]) -> Result<Vec<Option<f32>>> {
    let (rows, size) = logits.dims2()?;
    if !check_restriction(rows, distributions, targets)? {
        return Ok(vec![None; rows]);
    }
    cpu::update(logits, |logits| {
        let rows = logits.par_chunks_exact_mut(size).zip(distributions).zip(targets);
        let restricted = rows.map_init(Vec::new, |weights, ((row, distribution), target)| {
            (!distribution.is_of_model()).then(|| row::restrict(row, distribution, *target as usize, weights))
        });
        Ok(restricted.collect())
    })
}

/// [`restrict`] with kernels. Returns the log-sum-exps, f32 [M], NaN for an unchanged row; `None` if all rows are unchanged.
pub(crate) fn restrict_with(
    kernels: &dyn Kernels,
    logits: &Tensor,
    distributions: &[Distribution],
    targets: &[u32],
) -> Result<Option<Tensor>> {
    match check_restriction(logits.dim(0)?, distributions, targets)? {
        true => device::restrict(kernels, logits, distributions, targets).map(Some),
        false => Ok(None),
    }
}

/// Validates the arguments; returns whether any row changes.
fn check_restriction(rows: usize, distributions: &[Distribution], targets: &[u32]) -> Result<bool> {
    if distributions.len() != rows || targets.len() != rows {
        bail!("{} distributions and {} targets for {rows} rows of logits", distributions.len(), targets.len());
    }
    if distributions.iter().any(|distribution| distribution.sampling == Sampling::Greedy) {
        bail!("a greedy choice has no log-probability to learn");
    }
    Ok(!distributions.iter().all(Distribution::is_of_model))
}
