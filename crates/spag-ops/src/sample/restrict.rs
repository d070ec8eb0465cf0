//! Logits as those of a softmax that is the distribution of each row.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::{Distribution, Sampling, device, row};
use crate::cpu;
use crate::kernels::Kernels;

/// Makes logits [M, V], f32, those of a softmax that is the distribution of each row, `[M]`: they are shifted and divided by the
/// temperature, and −∞ for tokens that cannot be drawn. The target of a row, `[M]`, counts as one that can. Rows whose distribution is
/// the model's own stay as they are.
///
/// Returns the logarithm of each row's sum of exponentials, NaN if logits are not finite, and for a row that stays as it is `None`.
///
/// # Errors
/// A greedy distribution, which has no log-probabilities, wrong lengths, or a tensor that is not contiguous f32.
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

/// As [`restrict`] with kernels. Returns the logarithms of the sums, f32 [M], NaN for a row that stays as it is; `None` if all do.
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

/// Whether a row of logits changes.
fn check_restriction(rows: usize, distributions: &[Distribution], targets: &[u32]) -> Result<bool> {
    if distributions.len() != rows || targets.len() != rows {
        bail!("{} distributions and {} targets for {rows} rows of logits", distributions.len(), targets.len());
    }
    if distributions.iter().any(|distribution| distribution.sampling == Sampling::Greedy) {
        bail!("a greedy choice has no log-probability to learn");
    }
    Ok(!distributions.iter().all(Distribution::is_of_model))
}
