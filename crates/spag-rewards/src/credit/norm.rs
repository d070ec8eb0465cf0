//! The scale of rewards.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

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
