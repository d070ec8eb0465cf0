//! Samples one token from each row of logits, with its log-probabilities, or scores a given one.
//!
//! The caller supplies one uniform number per row, so that a sample depends only on its row. It is looked up in the
//! cumulative distribution: in vocabulary order if the distribution is unrestricted, else in order of likelihood.

mod adjust;
mod device;
mod distribution;
mod params;
mod restrict;
mod row;
mod score;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::cpu;
use crate::kernels;

pub use adjust::{Adjustment, LogitEdit, TokenSet};
pub use distribution::{Distribution, Sampling};
use params::RowParams;
pub use params::{Drawn, SampleError, SampleParams, SampledToken, ScoreParams, TokenLogProb};
pub(crate) use restrict::{restrict, restrict_with};
pub use score::{MAX_TOP, score, scored_rows};

/// Samples a token from each row of `logits` [R, V], given one set of parameters per row.
///
/// # Errors
/// A wrong number of parameters, invalid parameters, or a tensor that is not contiguous f32 (or, for kernels, bf16).
pub fn sample(logits: &Tensor, params: &[SampleParams]) -> Result<Vec<Drawn>> {
    let (rows, size) = logits.dims2()?;
    if rows != params.len() || size == 0 {
        bail!("sampling: {} sets of parameters for logits [{rows}, {size}]", params.len());
    }
    for row in params {
        row.distribution.sampling.check().map_err(candle_core::Error::wrap)?;
        if !(0.0..1.0).contains(&row.uniform) {
            bail!("sampling: the uniform number {} is not in [0, 1)", row.uniform);
        }
        row.adjustment.as_ref().map_or(Ok(()), |adjustment| adjustment.check(size))?;
    }
    if let Some(kernels) = kernels::of(logits.device())? {
        return adjust::sample_on_device(&*kernels, logits, params);
    }
    cpu::read(logits, |logits| {
        let rows = logits.par_chunks_exact(size).zip(params);
        let sample = |weights: &mut Vec<f32>, (row, params): (&[f32], &SampleParams)| match &params.adjustment {
            Some(adjustment) => adjust::sample(row, params, adjustment, weights),
            None => row::sample(row, params, weights),
        };
        Ok(rows.map_init(Vec::new, sample).collect())
    })
}
