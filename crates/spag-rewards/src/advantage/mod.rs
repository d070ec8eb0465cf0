//! Estimators of advantages: the games of a batch, with rewards, to one number for every utterance. One estimator a file.
//!
//! [`EstimatorSettings`] chooses; [`OutcomeRewards`] gives the rewards.

mod advantages;
mod baseline;
mod group;
mod outcome;
mod rae;
mod random_winner;
mod settings;
mod signed;
mod turn_baseline;
mod winner;

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use spag_game::{Labels, SEATS, Seat, Verdict};

use crate::{Error, Result};

pub use advantages::Advantages;
pub use baseline::EstimatorState;
pub use group::{Deviation, Group};
pub use outcome::{OutcomeRewards, RewardSource, TieReward};
pub use rae::Rae;
pub use random_winner::RandomWinner;
pub use settings::{BatchShape, EstimatorSettings};
pub use signed::Signed;
pub use turn_baseline::{NormaliseOrder, TurnBaseline};
pub use winner::Winner;

/// A finished game of a batch. Made from a verdict; read by estimators. In JSON, seats have the names of the game's labels:
/// [`Labels::reading`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RewardedGame {
    /// The kind of the game: [`Labels::name`], or any name that games with one baseline share.
    pub kind: String,
    /// What games of a group have in common: the item, and who has which role if that varies.
    pub key: String,
    /// The rewards, by [`Seat::index`].
    pub rewards: [f64; SEATS],
    /// The seat that won by the rules: [`Verdict::rewarded_winner`].
    pub winner: Option<Seat>,
    /// The only seat that learns, against an opponent that does not; `None` if both do.
    pub learner: Option<Seat>,
    /// The utterances, in order, up to the deciding one.
    pub turns: Vec<Turn>,
}

/// An utterance of a game, without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Who spoke.
    pub seat: Seat,
    /// Tokens of the response that are learned, an end token included. An utterance with 0, as of a player that does not
    /// learn, has no advantage.
    pub tokens: usize,
}

/// How advantages follow from rewards.
///
/// ```
/// use spag_game::{Verdict, taboo};
/// use spag_rewards::{EstimatorSettings, OutcomeRewards, RewardedGame, Turn};
///
/// # fn main() -> spag_rewards::Result<()> {
/// let turn = |seat| Turn { seat, tokens: 9 };
/// let turns = vec![turn(taboo::ATTACKER), turn(taboo::DEFENDER)];
/// let verdict = Verdict::of(taboo::RIGHT_GUESS, 2);
/// let game = RewardedGame::new(&taboo::LABELS, "apple", &verdict, turns, &OutcomeRewards::default());
/// let mut estimator = EstimatorSettings::Rae(Default::default()).build();
/// assert_eq!(estimator.advantages(&[game.clone()])?.games(), [[Some(-1.0), Some(1.0)]]);
/// // The baselines have moved towards the rewards.
/// assert_eq!(estimator.advantages(&[game])?.games(), [[Some(-0.95), Some(0.95)]]);
/// # Ok(())
/// # }
/// ```
pub trait Estimator: Send {
    /// The advantage of every utterance of a batch, whose games are in order.
    ///
    /// # Errors
    /// A batch that the formula is not made for, or an advantage that is not finite.
    fn advantages(&mut self, games: &[RewardedGame]) -> Result<Advantages>;

    /// What later batches depend on. With it a resumed run continues bit by bit.
    fn state(&self) -> EstimatorState {
        EstimatorState::default()
    }

    /// Continues with the state of an estimator of the same settings.
    fn restore(&mut self, state: EstimatorState) {
        let _ = state;
    }
}

impl RewardedGame {
    /// A game of `labels`, with its rewards. Of `turns` those up to the deciding one are kept.
    pub fn new(
        labels: &Labels,
        key: impl Into<String>,
        verdict: &Verdict,
        mut turns: Vec<Turn>,
        rewards: &OutcomeRewards,
    ) -> Self {
        turns.truncate(verdict.history_length);
        let (kind, rewards) = (labels.name.to_owned(), rewards.of(verdict, labels));
        Self { kind, key: key.into(), rewards, winner: verdict.rewarded_winner(), learner: None, turns }
    }

    /// The same game against an opponent: only `learner` learns, and only games in which it has this seat are compared with this
    /// one.
    pub fn against_opponent(self, learner: Seat) -> Self {
        let key = format!("{} ({learner})", self.key);
        let turns = self.turns.into_iter().map(|turn| match turn.seat == learner {
            true => turn,
            false => Turn { tokens: 0, ..turn },
        });
        Self { key, learner: Some(learner), turns: turns.collect(), ..self }
    }

    /// The score of a seat: 1 if its reward is larger than the other's, 1/2 if they are equal, else 0.
    pub fn score(&self, seat: Seat) -> f64 {
        self.score_of(seat.index())
    }

    /// The score of the first seat.
    pub fn score_of_first(&self) -> f64 {
        self.score_of(0)
    }

    fn score_of(&self, seat: usize) -> f64 {
        let other: f64 = self.rewards.iter().sum::<f64>() - self.rewards[seat];
        match self.rewards[seat].total_cmp(&other) {
            Ordering::Less => 0.0,
            Ordering::Equal => 0.5,
            Ordering::Greater => 1.0,
        }
    }

    /// Whether a seat learns.
    fn learns(&self, seat: usize) -> bool {
        self.learner.is_none_or(|learner| learner.index() == seat)
    }

    /// The indices of the turns of a seat that are learned.
    fn turns_of(&self, seat: usize) -> impl DoubleEndedIterator<Item = usize> {
        let turns = self.turns.iter().enumerate();
        turns.filter(move |(_, turn)| turn.seat.index() == seat && turn.tokens > 0).map(|(at, _)| at)
    }
}

/// Refuses a setting of an estimator or of rewards that is not in its range, which `remedy` names.
fn check(setting: &'static str, given: f64, valid: bool, remedy: &'static str) -> Result<()> {
    if valid { Ok(()) } else { Err(Error::Estimator { setting, given: given.to_string(), remedy }) }
}

/// Checks a discount per turn.
fn check_gamma(gamma: f64) -> Result<()> {
    check("gamma", gamma, gamma > 0.0 && gamma <= 1.0, "a number above 0 and up to 1; 1 discounts nothing")
}

#[cfg(test)]
mod tests;
