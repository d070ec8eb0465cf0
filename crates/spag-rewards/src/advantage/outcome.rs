//! The rewards of an outcome.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spag_game::{Ending, Game, Labels, Play, SEATS, Seat, Verdict};

use super::check;
use crate::{Error, Result};

/// Rewards of both seats for each way in which a game ends. An ending that breaks a rule ([`Play::RuleBroken`]) is also that
/// of a seat whose utterances the game refused, as empty or too long ones, until none was left to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutcomeRewards {
    /// Where the rewards of games that ended by the rules come from.
    #[serde(skip_serializing_if = "RewardSource::is_outcome")]
    pub by: RewardSource,
    /// Of the winner.
    pub win: f64,
    /// Of the loser.
    pub loss: f64,
    /// Of both seats in a tie.
    pub tie: f64,
    /// Of ties that end in some way, by its name ([`EndingLabel::name`](spag_game::EndingLabel::name)), in place of `tie`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ties: BTreeMap<String, TieReward>,
    /// Of the seat that broke a rule.
    pub invalid: f64,
    /// Of the other seat then.
    pub other_invalid: f64,
}

/// Where the rewards of games come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RewardSource {
    /// Who has won.
    #[default]
    Outcome,
    /// What each seat won or lost by the game's own count, as chips ([`Verdict::amounts`]).
    Amounts,
}

impl RewardSource {
    fn is_outcome(&self) -> bool {
        *self == Self::Outcome
    }
}

/// The reward of a kind of tie: of both seats, or of each by its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number, or a table of seats with numbers, such as { attacker = 0.0, defender = -1.0 }"
)]
pub enum TieReward {
    /// Of both.
    Both(f64),
    /// Of each, by [`Seat::name`]. A seat that is not named has [`OutcomeRewards::tie`].
    Seats(BTreeMap<String, f64>),
}

impl TieReward {
    fn of(&self, seat: Seat) -> Option<f64> {
        match self {
            Self::Both(reward) => Some(*reward),
            Self::Seats(rewards) => rewards.get(seat.name()).copied(),
        }
    }

    fn numbers(&self) -> Vec<f64> {
        match self {
            Self::Both(reward) => vec![*reward],
            Self::Seats(rewards) => rewards.values().copied().collect(),
        }
    }
}

/// Those of SPIRAL.
impl Default for OutcomeRewards {
    fn default() -> Self {
        let (by, ties) = (RewardSource::Outcome, BTreeMap::new());
        Self { by, win: 1.0, loss: -1.0, tie: 0.0, ties, invalid: -1.5, other_invalid: 0.5 }
    }
}

impl OutcomeRewards {
    /// Refuses numbers that are not finite.
    ///
    /// # Errors
    /// [`Error::Estimator`](crate::Error::Estimator) with the setting.
    pub fn check(&self) -> Result<()> {
        let &Self { win, loss, tie, invalid, other_invalid, .. } = self;
        let named =
            [("win", win), ("loss", loss), ("tie", tie), ("invalid", invalid), ("other_invalid", other_invalid)];
        let ties = self.ties.values().flat_map(|reward| reward.numbers().into_iter().map(|given| ("ties", given)));
        named
            .into_iter()
            .chain(ties)
            .try_for_each(|(name, given)| check(name, given, given.is_finite(), "a finite number"))
    }

    /// Refuses rewards that none of the games has: of an ending that is no tie of theirs, of a seat of another game, and amounts of a
    /// game that counts none.
    ///
    /// # Errors
    /// [`Error::Reward`](crate::Error::Reward).
    pub fn check_for(&self, games: &[&dyn Game]) -> Result<()> {
        let refuse = |reason: String| Err(Error::Reward { reason });
        if let (RewardSource::Amounts, Some(game)) = (self.by, games.iter().find(|game| game.amounts().is_none())) {
            return refuse(format!("{} counts nothing but who wins; leave `by` out", game.labels().name));
        }
        let ties = || games.iter().flat_map(|game| game.labels().endings).filter(|ending| may_tie(**ending));
        for (name, reward) in &self.ties {
            if !ties().any(|ending| ending.name == name) {
                let known: Vec<&str> = ties().map(|ending| ending.name).collect();
                return refuse(format!("no tie ends by {name:?}; the ties are {}", known.join(", ")));
            }
            let TieReward::Seats(seats) = reward else { continue };
            let known = || games.iter().flat_map(|game| game.labels().seats).map(Seat::name);
            if let Some(seat) = seats.keys().find(|seat| !known().any(|own| own == *seat)) {
                return refuse(format!(
                    "there is no seat {seat:?}; the seats are {}",
                    known().collect::<Vec<_>>().join(", ")
                ));
            }
        }
        Ok(())
    }

    /// The rewards of a game's seats, by [`Seat::index`].
    pub fn of(&self, verdict: &Verdict, labels: &Labels) -> [f64; SEATS] {
        if let (RewardSource::Amounts, Some(amounts)) = (self.by, verdict.amounts) {
            return amounts.map(|amount| amount as f64);
        }
        let (won, lost) = match verdict.ending.play {
            Play::ByTheRules => (self.win, self.loss),
            Play::RuleBroken => (self.other_invalid, self.invalid),
        };
        let tie = self.ties.get(verdict.ending.name);
        labels.seats.map(|seat| match verdict.winner() {
            Some(winner) if winner == seat => won,
            Some(_) => lost,
            None => tie.and_then(|tie| tie.of(seat)).unwrap_or(self.tie),
        })
    }
}

/// Whether games that end so may have no winner.
fn may_tie(ending: Ending) -> bool {
    ending.winner.is_none() && ending.play == Play::ByTheRules
}
