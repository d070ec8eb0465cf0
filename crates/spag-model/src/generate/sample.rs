//! How tokens are chosen.

use rand::Rng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::ops::sample::Draw;

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Sampling {
    /// The most likely token; of equals the one with the lowest id.
    Greedy,
    /// A draw from softmax(logits / temperature), restricted to the most likely tokens where asked.
    Random {
        /// Divides the logits; 1.2 in the paper's self-play.
        temperature: f64,
        /// Only the `k` most likely tokens, if given.
        top_k: Option<usize>,
        /// Only the most likely tokens that together reach probability `p`, if given.
        top_p: Option<f64>,
    },
}

impl Sampling {
    /// What one token is asked for: the next number of `rng`, where it is drawn.
    pub(super) fn next(&self, rng: &mut ChaCha8Rng) -> Draw {
        match *self {
            Self::Greedy => Draw::Greedy,
            Self::Random { temperature, top_k, top_p } => {
                Draw::Random { temperature, top_k, top_p, uniform: rng.random() }
            }
        }
    }

    /// A draw at `temperature` from all tokens.
    pub fn at_temperature(temperature: f64) -> Self {
        Self::Random { temperature, top_k: None, top_p: None }
    }

    /// Rejects numbers that make no distribution.
    ///
    /// # Errors
    /// [`Error::Generation`] naming the setting.
    pub fn check(&self) -> Result<()> {
        let Self::Random { temperature, top_k, top_p } = self else { return Ok(()) };
        let wrong = |what: String| Err(Error::Generation(what));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_distribution_are_refused() {
        assert!(Sampling::at_temperature(0.0).check().is_err());
        assert!(Sampling::Random { temperature: 1.0, top_k: None, top_p: Some(1.5) }.check().is_err());
        assert!(Sampling::at_temperature(1.2).check().is_ok());
    }
}
