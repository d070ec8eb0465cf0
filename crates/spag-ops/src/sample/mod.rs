//! Samples one token from each row of logits, with its log-probabilities, or scores a given one.
//!
//! The caller supplies one uniform number per row, so that a sample depends on its row alone. The number is looked up in
//! the cumulative distribution: in vocabulary order if the distribution is unrestricted, else in order of likelihood.

mod device;
mod row;
mod score;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::cpu;
use crate::error::Error;
use crate::kernels;

pub use score::{MAX_TOP, ScoreParams, TokenLogProb, score, scored_rows};

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Sampling {
    /// The most likely token; ties go to the lowest id.
    #[default]
    Greedy,
    /// A sample from softmax(logits / temperature), optionally restricted to the most likely tokens.
    Random {
        /// Divides the logits; 1.2 in the paper's self-play.
        temperature: f64,
        /// Restricts to the `k` most likely tokens; at least 1.
        top_k: Option<usize>,
        /// Restricts to the smallest set of most likely tokens with total probability `p`, in (0, 1].
        top_p: Option<f64>,
    },
}

impl Sampling {
    /// `top_k` of sampling in the reference: the default of transformers.
    pub const REFERENCE_TOP_K: usize = 50;

    /// Samples at `temperature` from the `top_k` most likely tokens, or from all if it is 0.
    pub fn random(temperature: f64, top_k: usize, top_p: Option<f64>) -> Self {
        Self::Random { temperature, top_k: Some(top_k).filter(|k| *k > 0), top_p }
    }

    /// Samples at `temperature` from all tokens.
    pub fn at_temperature(temperature: f64) -> Self {
        Self::Random { temperature, top_k: None, top_p: None }
    }

    /// Rejects invalid settings.
    ///
    /// # Errors
    /// [`Error::Sampling`] naming the setting.
    pub fn check(&self) -> crate::Result<()> {
        let Self::Random { temperature, top_k, top_p } = self else { return Ok(()) };
        let wrong = |what: String| Err(Error::Sampling(what));
        if !(temperature.is_finite() && *temperature > 0.0) {
            return wrong(format!("temperature must be above 0, not {temperature}; use greedy for 0"));
        }
        if *top_k == Some(0) {
            return wrong("top_k must be at least 1".into());
        }
        match top_p {
            Some(p) if !(*p > 0.0 && *p <= 1.0) => wrong(format!("top_p must lie in (0, 1], not {p}")),
            _ => Ok(()),
        }
    }
}

/// Sampling parameters of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleParams {
    /// How the token is chosen.
    pub sampling: Sampling,
    /// A uniform random number in [0, 1); ignored by [`Sampling::Greedy`].
    pub uniform: f64,
    /// Tokens that must not be chosen.
    pub banned: Vec<u32>,
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

/// Samples a token from each row of `logits` [R, V], given one set of parameters per row.
///
/// # Errors
/// A wrong number of parameters, invalid parameters, or a tensor that is not contiguous f32 (or, for kernels, bf16).
pub fn sample(logits: &Tensor, params: &[SampleParams]) -> Result<Vec<std::result::Result<SampledToken, SampleError>>> {
    let (rows, size) = logits.dims2()?;
    if rows != params.len() || size == 0 {
        bail!("sampling: {} sets of parameters for logits [{rows}, {size}]", params.len());
    }
    for row in params {
        row.sampling.check().map_err(candle_core::Error::wrap)?;
        if !(0.0..1.0).contains(&row.uniform) {
            bail!("sampling: the uniform number {} is not in [0, 1)", row.uniform);
        }
    }
    if let Some(kernels) = kernels::of(logits.device())? {
        return device::sample(&*kernels, logits, params);
    }
    cpu::read(logits, |logits| {
        let rows = logits.par_chunks_exact(size).zip(params);
        Ok(rows.map_init(Vec::new, |weights, (row, params)| row::sample(row, params, weights)).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_sampling_settings_are_rejected() {
        assert!(Sampling::at_temperature(0.0).check().is_err());
        assert!(Sampling::Random { temperature: 1.0, top_k: None, top_p: Some(1.5) }.check().is_err());
        assert!(Sampling::at_temperature(1.2).check().is_ok());
    }
}
