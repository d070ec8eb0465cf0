//! A checkpoint or an endpoint as a player.

use std::path::{Path, PathBuf};

use spag_game::{Policy, PolicyError, PollMode, Reply, TurnRequest};
use spag_io::TurnPrompt;
use spag_model::adapter::Adapter;
use spag_model::generate::GenerationStats;

use crate::endpoint::{EndpointPlayer, EndpointStats};
use crate::error::Result;
use crate::job::PlayerWork;
use crate::model_player::{ContextBudget, ModelPlayer};

/// A player of either kind.
pub enum AnyPlayer {
    /// A checkpoint, or an adapter of one, whose engine other players may share.
    Model {
        /// The player's part of the engine, and its open turns.
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

    /// The same player, held to the actions that games list: [`ModelPlayer::with_held_actions`],
    /// [`EndpointPlayer::with_held_actions`].
    ///
    /// # Errors
    /// The vocabulary of a checkpoint cannot be held to grammars.
    pub fn with_held_actions(self) -> Result<Self> {
        Ok(match self {
            Self::Model { player, games, folder } => {
                Self::Model { player: Box::new(player.with_held_actions()?), games, folder }
            }
            Self::Endpoint(player) => Self::Endpoint(Box::new(player.with_held_actions())),
        })
    }

    /// Another player with the engine of this one: the model, or the model with an adapter, which has this name there.
    ///
    /// # Errors
    /// As [`ModelPlayer::beside`], or this one is an endpoint.
    pub fn beside(&self, adapter: Option<(&str, &Adapter)>) -> Result<Self> {
        let Self::Model { player, games, folder } = self else {
            return Err(spag_model::Error::Generation("an endpoint has no engine that others can share".into()).into());
        };
        let player = Box::new(player.beside(adapter, None)?);
        Ok(Self::Model { player, games: *games, folder: folder.clone() })
    }

    /// The folder of the checkpoint; `None` for an endpoint.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::Model { folder, .. } => Some(folder),
            Self::Endpoint(_) => None,
        }
    }

    /// Whether both play with one engine, whose statistics are those of all its players.
    pub fn shares_engine(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Model { player, .. }, Self::Model { player: other, .. }) => player.shares_engine(other),
            _ => false,
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
