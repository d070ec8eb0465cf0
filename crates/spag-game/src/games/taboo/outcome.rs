//! Outcomes: groups of endings, as the reference names them.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::labels::{BROKEN_RULE, RIGHT_GUESS, SAID_UNKNOWINGLY, TIE, WRONG_GUESS};
use crate::ending::Ending;
use crate::verdict::Verdict;

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

    /// The outcome of a game that ended so.
    pub fn of(ending: Ending) -> Self {
        match ending {
            RIGHT_GUESS => Self::DefenderWins,
            WRONG_GUESS | SAID_UNKNOWINGLY => Self::AttackerWins,
            BROKEN_RULE => Self::AttackerBreaksRules,
            _ => Self::Tie,
        }
    }

    /// The name in files: [`EndingLabel::outcome`](crate::EndingLabel::outcome).
    pub fn name(self) -> &'static str {
        match self {
            Self::AttackerWins => WRONG_GUESS.outcome,
            Self::DefenderWins => RIGHT_GUESS.outcome,
            Self::AttackerBreaksRules => BROKEN_RULE.outcome,
            Self::Tie => TIE.outcome,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        Self::of(verdict.ending)
    }
}
