//! Samples one token from each row of logits, with its log-probabilities, or scores a given one.
//!
//! The caller supplies one uniform number per row, so that a sample depends on its row alone. The number is looked up in
//! the cumulative distribution: in vocabulary order if the distribution is unrestricted, else in order of likelihood.

mod adjust;
mod device;
mod distribution;
mod row;
mod score;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::cpu;
use crate::kernels;

pub use adjust::{Adjustment, LogitEdit, TokenSet};
pub use distribution::{Distribution, Sampling};
pub(crate) use distribution::{restrict, restrict_with};
pub use score::{MAX_TOP, ScoreParams, TokenLogProb, score, scored_rows};

/// Sampling parameters of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleParams {
    /// What the token is drawn from.
    pub distribution: Distribution,
    /// A uniform random number in [0, 1); ignored by [`Sampling::Greedy`].
    pub uniform: f64,
    /// What changes the logits first, if anything does.
    pub adjustment: Option<Box<Adjustment>>,
}

/// A token and its log-probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledToken {
    /// The token.
    pub token: u32,
    /// ln p under softmax of the unmodified logits.
    pub model_log_prob: f32,
    /// ln p under the distribution that was sampled from; 0 if greedy.
    pub sampling_log_prob: f32,
}

/// Why no token could be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// The logits contain a NaN or +∞, or all are -∞.
    #[error("the model's logits are not finite; the weights may be corrupt")]
    NotFinite,
    /// Every token with a non-zero probability is banned.
    #[error("every token is banned")]
    NoneAllowed,
}

/// What is drawn from a row.
pub type Drawn = std::result::Result<SampledToken, SampleError>;

/// A row of logits and its parameters.
type RowParams<'a> = (usize, &'a SampleParams);

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
