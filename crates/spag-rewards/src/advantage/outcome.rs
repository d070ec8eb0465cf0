//! The rewards of an outcome.

use serde::{Deserialize, Serialize};
use spag_game::{Labels, Play, SEATS, Verdict};

use super::check;
use crate::Result;

/// Rewards of both seats for each way in which a game ends. An ending that breaks a rule ([`Play::RuleBroken`]) is also that
/// of a seat whose utterances the game refused, as empty or too long ones, until none was left to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutcomeRewards {
    /// Of the winner.
    pub win: f64,
    /// Of the loser.
    pub loss: f64,
    /// Of both seats in a tie.
    pub tie: f64,
    /// Of the seat that broke a rule.
    pub invalid: f64,
    /// Of the other seat then.
    pub other_invalid: f64,
}

/// Those of SPIRAL.
impl Default for OutcomeRewards {
    fn default() -> Self {
        Self { win: 1.0, loss: -1.0, tie: 0.0, invalid: -1.5, other_invalid: 0.5 }
    }
}

impl OutcomeRewards {
    /// Refuses numbers that are not finite.
    ///
    /// # Errors
    /// [`Error::Estimator`](crate::Error::Estimator) with the setting.
    pub fn check(&self) -> Result<()> {
        let Self { win, loss, tie, invalid, other_invalid } = *self;
        let named =
            [("win", win), ("loss", loss), ("tie", tie), ("invalid", invalid), ("other_invalid", other_invalid)];
        named.into_iter().try_for_each(|(name, given)| check(name, given, given.is_finite(), "a finite number"))
    }

    /// The rewards of a game's seats, by [`Seat::index`](spag_game::Seat::index).
    pub fn of(&self, verdict: &Verdict, labels: &Labels) -> [f64; SEATS] {
        let (won, lost) = match verdict.ending.play {
            Play::ByTheRules => (self.win, self.loss),
            Play::RuleBroken => (self.other_invalid, self.invalid),
        };
        labels.seats.map(|seat| match verdict.winner() {
            Some(winner) if winner == seat => won,
            Some(_) => lost,
            None => self.tie,
        })
    }
}
