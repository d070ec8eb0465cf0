//! The advantages of a batch.

use super::{RewardedGame, Turn};
use crate::{Error, Result};

/// The advantages of a batch of G games: for each game, in the order of the batch, one for each of its [`RewardedGame::turns`].
/// `None` is an utterance that is not trained on; every other one is finite, and its utterance has tokens to learn. Made by an
/// [`Estimator`](super::Estimator), read where trajectories are made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advantages(Vec<Vec<Option<f64>>>);

impl Advantages {
    /// Adds a game whose turns have what `of` gives for their index; an utterance without tokens to learn has none.
    ///
    /// # Errors
    /// [`Error::Advantage`] if an advantage is not finite.
    pub fn push(&mut self, game: &RewardedGame, of: impl Fn(usize, &Turn) -> Option<f64>) -> Result<()> {
        let each = game.turns.iter().enumerate().map(|(at, turn)| match of(at, turn).filter(|_| turn.tokens > 0) {
            Some(value) if !value.is_finite() => Err(Error::Advantage { key: game.key.clone(), value }),
            advantage => Ok(advantage),
        });
        self.0.push(each.collect::<Result<_>>()?);
        Ok(())
    }

    /// Those of each game, in order.
    pub fn games(&self) -> &[Vec<Option<f64>>] {
        &self.0
    }

    /// The number of utterances that have one.
    pub fn count(&self) -> usize {
        self.0.iter().flatten().flatten().count()
    }

    /// That of a turn; `None` also out of range.
    pub fn of_turn(&self, game: usize, turn: usize) -> Option<f64> {
        self.0.get(game)?.get(turn).copied().flatten()
    }
}
