//! Where games go once they have ended.

use super::game::{FailedGame, FinishedGame};
use crate::error::{Error, Result};

/// Gets the games of [`play_games`](crate::play_games) as they end, and can stop it.
///
/// A closure that takes finished games is a sink too; a failed game is an error to it.
pub trait GameSink {
    /// A game was played to its end.
    ///
    /// # Errors
    /// Whatever is to stop the run, such as a full disk.
    fn finished(&mut self, game: FinishedGame) -> Result<()>;

    /// A game could not be played to its end.
    ///
    /// # Errors
    /// Whatever is to stop the run.
    fn failed(&mut self, game: FailedGame) -> Result<()>;

    /// Whether to go on. Once it says no, no game begins, no turn is asked for, games that are open are dropped, and
    /// [`play_games`](crate::play_games) returns `Ok`. Asked before every turn and after every wait, at least about ten
    /// times a second while a remote player is waited for.
    fn should_continue(&mut self) -> bool {
        true
    }
}

impl<F: FnMut(FinishedGame) -> Result<()>> GameSink for F {
    fn finished(&mut self, game: FinishedGame) -> Result<()> {
        self(game)
    }

    fn failed(&mut self, game: FailedGame) -> Result<()> {
        Err(Error::GameFailed { game: game.game, role: game.role, reason: game.failure.to_string() })
    }
}

/// A sink that keeps all games in memory, in the order in which they end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectedGames {
    /// Played to their end.
    pub finished: Vec<FinishedGame>,
    /// Could not be.
    pub failed: Vec<FailedGame>,
}

impl GameSink for CollectedGames {
    fn finished(&mut self, game: FinishedGame) -> Result<()> {
        self.finished.push(game);
        Ok(())
    }

    fn failed(&mut self, game: FailedGame) -> Result<()> {
        self.failed.push(game);
        Ok(())
    }
}
