//! Models as players of an on-policy run.

use spag_model::generate::Sampling;
use spag_model::{Checkpoint, EngineConfig};
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
