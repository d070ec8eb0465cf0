//! What the credit of a game depends on.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use spag_game::JudgeKind;

use crate::{Error, Result};

/// How a winner's rewards are scaled. Their ratios are the same either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RewardNorm {
    /// They sum to 1: every won game counts the same, and an utterance of a long game less than one of a short game.
    /// This is the paper's.
    #[default]
    Sum,
    /// They average 1: every utterance counts the same, however long its game.
    Mean,
}

impl FromStr for RewardNorm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "sum" => Ok(Self::Sum),
            "mean" => Ok(Self::Mean),
            _ => Err(Error::UnknownRewardNorm { given: text.into() }),
        }
    }
}

impl fmt::Display for RewardNorm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
        })
    }
}

/// Settings of [`assign_rewards`](crate::assign_rewards).
#[derive(Clone, Debug, PartialEq)]
pub struct CreditConfig {
    /// γ: a winner's utterance gets γ times the reward of its next one. Above 0; 1 rewards all alike.
    pub decay_weight: f64,
    /// How a winner's rewards are scaled.
    pub norm: RewardNorm,
    /// Who decides the games.
    pub judge: JudgeKind,
    /// Seed of the wordings of the queries.
    pub seed: u64,
}

/// The paper's: γ = 0.8, rewards that sum to 1, the paper's judge.
impl Default for CreditConfig {
    fn default() -> Self {
        Self { decay_weight: 0.8, norm: RewardNorm::Sum, judge: JudgeKind::Paper, seed: 0 }
    }
}

impl CreditConfig {
    pub(crate) fn check(&self) -> Result<()> {
        if self.decay_weight.is_finite() && self.decay_weight > 0.0 {
            Ok(())
        } else {
            Err(Error::DecayWeight { given: self.decay_weight })
        }
    }
}
