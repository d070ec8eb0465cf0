//! Models as players of an on-policy run.

use spag_game::Seats;
use spag_model::adapter::Adapter;
use spag_model::generate::Sampling;
use spag_model::{Checkpoint, EngineConfig};
use spag_run::files::SECOND_SEAT;
use spag_selfplay::ModelPlayer;

use crate::error::Result;
use crate::run::context::RunContext;

/// A checkpoint as a player, whose prompts have its own utterances as the tokens that it sampled.
pub(super) fn player(
    run: RunContext<'_>,
    checkpoint: Checkpoint,
    (engine, sampling): (EngineConfig, Sampling),
) -> Result<ModelPlayer> {
    let length = ("self_play.max_new_tokens", run.config.self_play.length.max_new_tokens);
    let player = run.player_of(checkpoint, sampling, length, engine)?;
    Ok(player.with_verbatim_history())
}

/// Who plays the games that are learned from: one player in both seats, or one in each, as rows of the same batches.
pub(super) struct Players {
    first: ModelPlayer,
    second: Option<ModelPlayer>,
}

impl Players {
    /// One player in both seats.
    pub(super) fn new(player: ModelPlayer) -> Self {
        Self { first: player, second: None }
    }

    /// The player of the first seat, or of both.
    pub(super) fn first(&mut self) -> &mut ModelPlayer {
        &mut self.first
    }

    /// Plays the second seat with an adapter, in place of the one before, in the engine of the first player.
    pub(super) fn set_second(&mut self, adapter: &Adapter, version: u64) -> Result<()> {
        self.second = None;
        self.first.keep_adapters(&[])?;
        self.second = Some(self.first.beside(Some((SECOND_SEAT, adapter)), Some(version))?);
        Ok(())
    }

    /// Those of a game in which all utterances are learned.
    pub(super) fn seats(&mut self) -> Seats<'_> {
        match &mut self.second {
            None => Seats::SelfPlay(&mut self.first),
            Some(second) => Seats::Versus([&mut self.first, second]),
        }
    }

    /// Forgets the utterances of games that have ended.
    pub(super) fn forget_games(&mut self) {
        self.first.forget_games();
        if let Some(second) = &mut self.second {
            second.forget_games();
        }
    }
}
