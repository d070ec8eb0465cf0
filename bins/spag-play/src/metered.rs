//! How many tokens a player has made, seen from outside while it plays.

use std::cell::Cell;

use spag_game::{Player, PlayerError, PollMode, Reply, TurnRequest};

use spag_cli::AnyPlayer;

/// A player whose count of new tokens can be read while somebody else has it.
pub(crate) struct Metered<'a> {
    pub(crate) player: &'a mut AnyPlayer,
    pub(crate) tokens: &'a Cell<u64>,
}

impl Player for Metered<'_> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError> {
        self.player.submit(turn)
    }

    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PlayerError> {
        let replies = self.player.poll(mode)?;
        self.tokens.set(self.player.work().map_or(0, |work| work.new_tokens()));
        Ok(replies)
    }
}
