//! Parameters and results of sampling and scoring.

use super::{Adjustment, Distribution};
#[cfg(doc)]
use super::{MAX_TOP, Sampling};

/// Sampling parameters of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleParams {
    /// The distribution of the token.
    pub distribution: Distribution,
    /// A uniform random number in [0, 1); ignored by [`Sampling::Greedy`].
    pub uniform: f64,
    /// Logit adjustments applied first, if any.
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

/// Why a row could not be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    /// The logits contain a NaN or +∞, or all are -∞.
    #[error("the model's logits are not finite; the weights may be corrupt")]
    NotFinite,
    /// Every token with a non-zero probability is banned.
    #[error("every token is banned")]
    NoneAllowed,
}

/// The result of sampling a row.
pub type Drawn = std::result::Result<SampledToken, SampleError>;

/// A row of logits and its parameters.
pub(super) type RowParams<'a> = (usize, &'a SampleParams);

/// A token to score in a row of logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreParams {
    /// The row.
    pub row: usize,
    /// The token.
    pub token: u32,
    /// The number of most likely tokens to report, at most [`MAX_TOP`].
    pub top: usize,
}

/// A token with its log-probability under softmax of the unmodified logits.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenLogProb {
    /// The token.
    pub token: u32,
    /// Its ln p.
    pub log_prob: f32,
    /// The most likely tokens at this position with their ln p, sorted by likelihood, ties by id. Includes the token itself,
    /// with the same ln p, if it is likely enough.
    pub top: Vec<(u32, f32)>,
}
