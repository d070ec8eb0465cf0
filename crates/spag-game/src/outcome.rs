//! Outcomes and verdicts.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::episode::Role;

/// The result of a game, with the reference's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The defender said the word without predicting it, or predicted a wrong word.
    #[serde(rename = "attacker wins")]
    AttackerWins,
    /// The defender predicted the word.
    #[serde(rename = "defender wins")]
    DefenderWins,
    /// The attacker said the word or made a prediction.
    #[serde(rename = "attacker breaks the rules")]
    AttackerBreaksRules,
    /// No utterance decided the game.
    #[serde(rename = "tied game")]
    Tie,
}

impl Outcome {
    /// All outcomes, in the order of reports.
    pub const ALL: [Self; 4] = [Self::AttackerWins, Self::DefenderWins, Self::AttackerBreaksRules, Self::Tie];

    /// The winner. A game with a broken rule has none.
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

/// A judged game: its outcome and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The outcome.
    pub outcome: Outcome,
    /// Utterances up to and including the deciding one, or all of the game's turns.
    pub history_length: usize,
}
