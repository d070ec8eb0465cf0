//! What is asked of rows of logits, and what is drawn from them.

use super::{Adjustment, Distribution};
#[cfg(doc)]
use super::{MAX_TOP, Sampling};

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
pub(super) type RowParams<'a> = (usize, &'a SampleParams);

/// The token whose log-probability is asked for in a row of logits.
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
    /// The most likely tokens at this position with their ln p, the most likely first, ties by id. The token itself is among
    /// them if it is likely enough, with the same ln p.
    pub top: Vec<(u32, f32)>,
}
