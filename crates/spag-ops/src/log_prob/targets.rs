//! Target tokens with their sampling distributions.

use std::ops::Range;

use candle_core::{Result, bail};

use crate::sample::Distribution;

/// The target token of each row, and the distribution that it is sampled from.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    /// One token per row, `[M]`.
    pub tokens: &'a [u32],
    /// The distribution of each row, `[M]`; empty if all are the model's own.
    pub distributions: &'a [Distribution],
}

impl<'a, T: AsRef<[u32]> + ?Sized> From<&'a T> for Targets<'a> {
    /// Targets under the model's own distribution.
    fn from(tokens: &'a T) -> Self {
        Self { tokens: tokens.as_ref(), distributions: &[] }
    }
}

impl<'a> Targets<'a> {
    pub(super) fn len(self) -> usize {
        self.tokens.len()
    }

    pub(super) fn check(self) -> Result<()> {
        match self.distributions.len() {
            0 => Ok(()),
            count if count == self.len() => Ok(()),
            count => bail!("log_prob: {count} distributions for {} targets", self.len()),
        }
    }

    /// The targets of some rows.
    pub(super) fn rows(self, rows: Range<usize>) -> Self {
        let distributions = if self.distributions.is_empty() { &[] } else { &self.distributions[rows.clone()] };
        Self { tokens: &self.tokens[rows], distributions }
    }

    /// The inverse temperature of each row, unless all are 1.
    pub(super) fn inverse_temperatures(self) -> Option<Vec<f32>> {
        let all: Vec<f32> = self.distributions.iter().map(Distribution::inverse_temperature).collect();
        all.iter().any(|inverse| *inverse != 1.0).then_some(all)
    }
}
