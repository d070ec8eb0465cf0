//! Players: whoever answers a prompt with an utterance. The driver does not know how or where the text is made.

mod error;
mod scripted;

pub use error::{PlayerError, TurnFailure};
pub use scripted::ScriptedPlayer;

use crate::episode::{Episode, Role};

/// One player's turn in one game.
#[derive(Clone, Copy, Debug)]
pub struct TurnRequest<'a> {
    /// Number of the game.
    pub game: usize,
    /// Whose turn it is.
    pub role: Role,
    /// The game so far.
    pub episode: &'a Episode,
    /// The game so far in the playing wording.
    pub prompt: &'a str,
    /// Seed of the game.
    pub game_seed: u64,
    /// Seed of this utterance: drawn from the game's seed and the utterance's place.
    pub seed: u64,
}

/// What came of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Number of the game.
    pub game: usize,
    /// The utterance, or why there is none; then this game is over, and the others go on.
    pub utterance: Result<String, TurnFailure>,
}

/// How long a [`Player::poll`] may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollMode {
    /// Never waits for anything outside. A model that computes here takes a step (or as little as it can) all the same:
    /// it is how it gets on.
    NonBlocking,
    /// There is nothing else to do: if turns are open, does not return empty-handed without having made progress. A
    /// local model computes a step; a remote one waits for an answer, for at most about 100 ms, so that an interruption
    /// is noticed.
    Blocking,
}

/// Answers turns of many games, each when it is ready: a model that computes when it is polled, an endpoint that is
/// waited for, a script.
///
/// What is said in a turn must follow from the [`TurnRequest`] alone, not from what else is open: then games come out
/// the same however many are played at a time.
pub trait Player {
    /// Takes a turn on; its reply comes out of a later [`Player::poll`]. At most one turn of a game is open at a time.
    ///
    /// # Errors
    /// The player cannot go on at all; the run ends.
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError>;

    /// Replies that have become ready, in any order.
    ///
    /// # Errors
    /// The player cannot go on at all; the run ends. What fails a single turn is a [`TurnFailure`] in its reply.
    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PlayerError>;
}
