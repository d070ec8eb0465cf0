//! How a game ends.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::episode::Role;

/// The result of a game, written as the reference writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The defender said the word unknowingly, or guessed wrong.
    #[serde(rename = "attacker wins")]
    AttackerWins,
    /// The defender guessed right.
    #[serde(rename = "defender wins")]
    DefenderWins,
    /// The attacker said the word or a prediction.
    #[serde(rename = "attacker breaks the rules")]
    AttackerBreaksRules,
    /// Nothing was decided.
    #[serde(rename = "tied game")]
    Tie,
}

impl Outcome {
    /// All outcomes, in the order of reports.
    pub const ALL: [Self; 4] = [Self::AttackerWins, Self::DefenderWins, Self::AttackerBreaksRules, Self::Tie];

    /// Who has won. A broken rule gives nobody credit.
    pub fn winner(self) -> Option<Role> {
        match self {
            Self::AttackerWins => Some(Role::Attacker),
            Self::DefenderWins => Some(Role::Defender),
            Self::AttackerBreaksRules | Self::Tie => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AttackerWins => "attacker wins",
            Self::DefenderWins => "defender wins",
            Self::AttackerBreaksRules => "attacker breaks the rules",
            Self::Tie => "tied game",
        })
    }
}

/// A judged game: its outcome and how many utterances it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// Utterances up to the deciding one, or all that were looked at.
    pub history_length: usize,
}
