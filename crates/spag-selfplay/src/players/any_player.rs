//! A checkpoint or an endpoint as a player.

use std::path::{Path, PathBuf};

use spag_game::{Policy, PolicyError, PollMode, Reply, TurnRequest};
use spag_io::TurnPrompt;
use spag_model::GenerationStats;

use crate::endpoint::{EndpointPlayer, EndpointStats};
use crate::error::Result;
use crate::job::PlayerWork;
use crate::model_player::{ContextBudget, ModelPlayer};

/// A player of either kind.
pub enum AnyPlayer {
    /// A checkpoint.
    Model {
        /// The engine and its open turns.
        player: Box<ModelPlayer>,
        /// Games that it plays at a time.
        games: usize,
        /// The folder of the checkpoint.
        folder: PathBuf,
    },
    /// An endpoint.
    Endpoint(Box<EndpointPlayer>),
}

impl AnyPlayer {
    /// The number of games that the player plays concurrently.
    pub fn games_at_a_time(&self) -> usize {
        match self {
            Self::Model { games, .. } => *games,
            Self::Endpoint(player) => player.requests_in_flight(),
        }
    }

    /// The statistics of the engine of a checkpoint.
    pub fn generation(&self) -> Option<GenerationStats> {
        match self {
            Self::Model { player, .. } => Some(player.stats()),
            Self::Endpoint(_) => None,
        }
    }

    /// The statistics of requests to an endpoint.
    pub fn requests(&self) -> Option<EndpointStats> {
        match self {
            Self::Model { .. } => None,
            Self::Endpoint(player) => Some(player.stats()),
        }
    }

    /// The work since the player was opened.
    pub fn work(&self) -> PlayerWork {
        match self {
            Self::Model { player, .. } => PlayerWork::Engine(player.stats()),
            Self::Endpoint(player) => PlayerWork::Endpoint(player.stats()),
        }
    }

    /// The folder of a checkpoint and the space that a prompt leaves in its context. `None` for an endpoint.
    ///
    /// # Errors
    /// The prompt has no tokens.
    pub fn context_budget(&self, prompt: &TurnPrompt) -> Result<Option<(&Path, ContextBudget)>> {
        match self {
            Self::Model { player, folder, .. } => Ok(Some((folder, player.context_budget(prompt)?))),
            Self::Endpoint(_) => Ok(None),
        }
    }
}

impl Policy for AnyPlayer {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        match self {
            Self::Model { player, .. } => player.submit(turn),
            Self::Endpoint(player) => player.submit(turn),
        }
    }

    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PolicyError> {
        match self {
            Self::Model { player, .. } => player.poll(mode),
            Self::Endpoint(player) => player.poll(mode),
        }
    }
}
