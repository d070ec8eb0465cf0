//! Sampling distributions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::Error;

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

    /// Validates the settings.
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

/// The distribution of a sampled token: the sampling method and the banned tokens.
///
/// The engine samples from it, and a learner computes log-probabilities under it ([`log_prob`](crate::log_prob)), bit-identical on
/// a CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The sampling method.
    pub sampling: Sampling,
    /// Tokens that must not be chosen.
    pub banned: Arc<[u32]>,
}

impl Distribution {
    /// The model's own distribution: the softmax of its logits.
    pub fn of_model() -> Self {
        Self { sampling: Sampling::at_temperature(1.0), banned: Arc::default() }
    }

    /// Whether this is the model's own distribution.
    pub fn is_of_model(&self) -> bool {
        self.sampling == Sampling::at_temperature(1.0) && self.banned.is_empty()
    }

    /// The factor of the logits, 1 / temperature.
    pub(crate) fn inverse_temperature(&self) -> f32 {
        match self.sampling {
            Sampling::Greedy => 1.0,
            Sampling::Random { temperature, .. } => (1.0 / temperature) as f32,
        }
    }
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
