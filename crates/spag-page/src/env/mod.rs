//! Games as environments of other programs: the routes of OpenEnv's server around sessions of this process.

mod environment;
mod http;
mod mcp;
mod message;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use spag_game::session::Session;
use spag_game::{GameData, game_labels};
use spag_io::ReasoningRule;
use spag_serve::{Routes, Services};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use environment::Environment;

spag_io::settings! {
    /// How many clients play, and for how long one may be silent.
    #[derive(Copy, Args)]
    pub flags SessionLimits {
        /// Maximum number of sessions. Clients beyond it get the error CAPACITY_REACHED.
        #[arg(value_name = "N", help_heading = "Network")]
        pub max_sessions: usize [1..=1 << 20] = 1024;
        /// Seconds without a message of the client after which a session ends.
        #[arg(value_name = "X", help_heading = "Network")]
        pub session_timeout: f64 [0.01..=31_536_000.0] = 3600.0;
    }
}

/// A game that clients play over HTTP and WebSocket, each in a session of its own.
#[derive(Clone, Debug)]
pub struct Environments {
    game: String,
    data: Option<GameData>,
    limits: SessionLimits,
    reasoning: ReasoningRule,
}

/// What all sessions share.
struct House {
    environments: Environments,
    /// The name of the game in titles.
    title: String,
    /// Open places of sessions.
    places: Arc<Semaphore>,
    max_message_bytes: usize,
    services: Services,
}

impl Environments {
    /// The environments of a game.
    ///
    /// # Errors
    /// There is no such game, or data are missing or not of this game.
    pub fn new(game: &str, data: Option<GameData>, limits: SessionLimits) -> spag_game::Result<Self> {
        Session::new(game, data.clone())?;
        Ok(Self { game: game.to_owned(), data, limits, reasoning: ReasoningRule::None })
    }

    /// The same environments, for players whose texts have reasoning: an action is what a text says by this rule.
    pub fn with_reasoning(self, reasoning: ReasoningRule) -> Self {
        Self { reasoning, ..self }
    }

    /// The routes of a server whose messages have at most `max_message_bytes`.
    pub fn routes(self, max_message_bytes: usize, services: Services) -> Routes {
        let title = game_labels(&self.game).map_or(&*self.game, |labels| labels.title).to_owned();
        let places = Arc::new(Semaphore::new(self.limits.max_sessions.min(Semaphore::MAX_PERMITS)));
        http::routes(Arc::new(House { environments: self, title, places, max_message_bytes, services }))
    }
}

impl House {
    /// A session without a game in progress.
    fn environment(&self) -> spag_game::Result<Environment> {
        let Environments { game, data, reasoning, .. } = &self.environments;
        Ok(Environment::new(Session::new(game, data.clone())?.with_reasoning(reasoning.clone())))
    }

    /// A place for a session, if there is one.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// The answer to a client that gets no place.
    fn full(&self) -> Value {
        let most = self.environments.limits.max_sessions;
        message::error(
            "CAPACITY_REACHED",
            &format!("Server at capacity: {most}/{most} sessions active. Cannot accept new connections."),
            [("active_sessions", most.into()), ("max_sessions", most.into())],
        )
    }

    /// The time without a message after which a session ends.
    fn session_timeout(&self) -> Duration {
        Duration::try_from_secs_f64(self.environments.limits.session_timeout).unwrap_or(Duration::MAX)
    }
}
