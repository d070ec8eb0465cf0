//! Settings of credit assignment.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Credit, CreditRule, Error, Result};

/// The scale of a winner's rewards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RewardNorm {
    /// They sum to 1, so every game counts the same. The paper's.
    #[default]
    Sum,
    /// Their mean is 1, so every utterance counts the same, however long its game.
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

spag_io::settings! {
    /// Settings of [`assign_rewards`](crate::assign_rewards). The defaults are the paper's: the winner's utterances, γ = 0.8, rewards
    /// that sum to 1.
    pub table CreditConfig {
        /// γ > 0: an utterance's reward is γ times that of the seat's next one.
        pub decay_weight: f64 [CreditConfig::DECAY_WEIGHT] = 0.8;
        /// The scale of a seat's rewards.
        pub norm as "reward_norm": RewardNorm;
        /// Which utterances become samples.
        pub credit: CreditRule;
        /// Seed for drawing the wordings of queries.
        pub seed: u64;
    }
}

impl CreditConfig {
    /// Valid decay weights; the rewards of games of any length are finite.
    pub const DECAY_WEIGHT: RangeInclusive<f64> = 0.000_001..=1e6;

    /// The rule of credit.
    pub fn rule(&self) -> Box<dyn Credit> {
        self.credit.build(self.decay_weight, self.norm)
    }

    pub(crate) fn check(&self) -> Result<()> {
        let given = self.decay_weight;
        if Self::DECAY_WEIGHT.contains(&given) { Ok(()) } else { Err(Error::DecayWeight { given }) }
    }
}
