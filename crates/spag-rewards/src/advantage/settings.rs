//! The choice of an estimator.

use serde::{Deserialize, Serialize};

use super::baseline::EstimatorState;
use super::rae::RunningRae;
use super::signed::RunningSigned;
use super::{Estimator, Group, Rae, Signed, TurnBaseline, Winner};
use crate::{Error, Result};

/// An estimator by its `name`, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum EstimatorSettings {
    /// `rae`: SPIRAL's.
    Rae(Rae),
    /// `turn_baseline`: MARSHAL's.
    TurnBaseline(TurnBaseline),
    /// `group`: GRPO's.
    Group(Group),
    /// `winner`: SPAG's.
    Winner(Winner),
    /// `signed`: SPAG's with losers.
    Signed(Signed),
}

/// The games of every batch, as far as an estimator depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchShape {
    /// Games of a batch.
    pub games: usize,
    /// Games with the same kind and key.
    pub games_per_key: usize,
}

impl EstimatorSettings {
    /// Refuses settings that a formula is not made for, and batches that it needs more games of. For use before anything is
    /// played.
    ///
    /// # Errors
    /// [`Error::Estimator`] or [`Error::DecayWeight`] with the setting, the value and what to use.
    pub fn check(&self, batch: BatchShape) -> Result<()> {
        let at_least_two = |setting, games: usize, remedy| match games {
            0 | 1 => Err(Error::Estimator { setting, given: games.to_string(), remedy }),
            _ => Ok(()),
        };
        match self {
            Self::Rae(rae) => rae.check(),
            Self::TurnBaseline(turns) => {
                turns.check()?;
                at_least_two("games", batch.games, "at least 2: turn_baseline compares games of a batch")
            }
            Self::Group(_) => at_least_two(
                "games_per_key",
                batch.games_per_key,
                "at least 2: group compares games with the same item and roles",
            ),
            Self::Winner(winner) => winner.check(),
            Self::Signed(signed) => signed.check(),
        }
    }

    /// The estimator, before the first batch.
    pub fn build(&self) -> Box<dyn Estimator> {
        let state = EstimatorState::default();
        match *self {
            Self::Rae(settings) => Box::new(RunningRae { settings, state }),
            Self::TurnBaseline(turns) => Box::new(turns),
            Self::Group(group) => Box::new(group),
            Self::Winner(winner) => Box::new(winner),
            Self::Signed(settings) => Box::new(RunningSigned { settings, state }),
        }
    }
}
