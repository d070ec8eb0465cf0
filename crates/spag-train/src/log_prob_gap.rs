//! How far the learner's log-probabilities are from those at sampling.

use candle_core::Tensor;

use crate::error::Result;

/// |ln π_learner − ln π_sampler| over the tokens of a step whose log-probability at sampling is known, before the step's
/// update. 0 on every token if sampler and learner compute the same function with the same weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LogProbGap {
    /// The largest.
    pub max: f64,
    /// Their sum.
    pub sum: f64,
    /// Number of tokens.
    pub tokens: u64,
}

impl LogProbGap {
    /// The mean; 0 without tokens.
    pub fn mean(&self) -> f64 {
        self.sum / self.tokens.max(1) as f64
    }

    /// Adds the targets of a micro-batch, from their log-probabilities `[M]` (f64) and those at sampling. Waits for the
    /// device.
    pub(crate) fn add(&mut self, log_probs: &Tensor, sampled: &[Option<f32>]) -> Result<()> {
        for (log_prob, sampled) in log_probs.to_vec1::<f64>()?.into_iter().zip(sampled) {
            if let Some(sampled) = sampled {
                let gap = (log_prob - f64::from(*sampled)).abs();
                *self = self.and(&Self { max: gap, sum: gap, tokens: 1 });
            }
        }
        Ok(())
    }

    /// Over the tokens of both. A gap that is not a number stays one.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let max = if self.max.is_nan() || other.max.is_nan() { f64::NAN } else { self.max.max(other.max) };
        Self { max, sum: self.sum + other.sum, tokens: self.tokens + other.tokens }
    }
}
