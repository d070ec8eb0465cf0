//! Receivers of games that have ended.

use crate::episode::Episode;
use crate::error::{Error, Result};
use crate::failure::TurnFailure;
use crate::seat::Seat;
use crate::verdict::Verdict;

/// A game that was played to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedGame {
    /// Its number.
    pub number: usize,
    /// Its seed.
    pub seed: u64,
    /// Its utterances.
    pub episode: Episode,
    /// How it ended.
    pub verdict: Verdict,
}

/// A game that ended because a turn has no utterance. It has no outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedGame {
    /// Its number.
    pub number: usize,
    /// Its seed.
    pub seed: u64,
    /// The utterances before the failed turn.
    pub episode: Episode,
    /// The seat of the failed turn.
    pub seat: Seat,
    /// Why there is no utterance.
    pub failure: TurnFailure,
}

/// Receives the games of [`play_games`](crate::play_games) as they end, and can stop the run.
///
/// A closure that takes finished games is a sink, too; a failed game ends its run with an error.
pub trait GameSink {
    /// Receives a finished game.
    ///
    /// # Errors
    /// Anything that has to stop the run, such as a full disk.
    fn finished(&mut self, game: FinishedGame) -> Result<()>;

    /// Receives a failed game.
    ///
    /// # Errors
    /// Anything that has to stop the run.
    fn failed(&mut self, game: FailedGame) -> Result<()>;

    /// Whether to continue. If not, open games are dropped and [`play_games`](crate::play_games) returns `Ok`. Called
    /// before every turn and after every wait, at least ten times a second while waiting for a remote player.
    fn should_continue(&mut self) -> bool {
        true
    }
}

impl<F: FnMut(FinishedGame) -> Result<()>> GameSink for F {
    fn finished(&mut self, game: FinishedGame) -> Result<()> {
        self(game)
    }

    fn failed(&mut self, game: FailedGame) -> Result<()> {
        Err(Error::GameFailed { number: game.number, seat: game.seat, reason: game.failure.to_string() })
    }
}

/// A sink that keeps all games in memory, in the order in which they end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectedGames {
    /// Games played to their end.
    pub finished: Vec<FinishedGame>,
    /// Games that failed.
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
