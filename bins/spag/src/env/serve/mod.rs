//! `spag env --serve`: the routes of OpenEnv's server around sessions of this process.

mod environment;
mod http;
mod mcp;
mod message;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use spag_cli::Result;
use spag_game::session::Session;
use spag_game::{GameData, game_labels};
use spag_serve::{QueueLimits, Server, Services};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::network::{self, Keys, NetworkArgs};
use environment::Environment;

spag_io::settings! {
    /// How many clients play, and for how long one may be silent.
    #[derive(Copy, Args)]
    pub(crate) flags SessionLimits {
        /// Maximum number of sessions. Clients beyond it get the error CAPACITY_REACHED.
        #[arg(value_name = "N", help_heading = network::HEADING)]
        pub(crate) max_sessions: usize [1..=1 << 20] = 1024;
        /// Seconds without a message of the client after which a session ends.
        #[arg(value_name = "X", help_heading = network::HEADING)]
        pub(crate) session_timeout: f64 [0.01..=31_536_000.0] = 3600.0;
    }
}

/// The flags of the server.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(super) struct ServeArgs {
    #[command(flatten)]
    sessions: SessionLimits,
    #[command(flatten)]
    network: NetworkArgs,
}

/// What all sessions share.
struct House {
    game: String,
    data: Option<GameData>,
    /// The name of the game in titles.
    title: String,
    /// Open places of sessions.
    places: Arc<Semaphore>,
    limits: SessionLimits,
    max_message_bytes: usize,
    services: Services,
}

/// Serves until a signal ends it.
///
/// # Errors
/// There is no such game, it lacks its data, or the address cannot be listened on.
pub(super) fn run(game: &str, data: Option<GameData>, args: &ServeArgs) -> Result<()> {
    // The errors of the game come before those of the network.
    Session::new(game, data.clone())?;
    let title = game_labels(game).map_or(game, |labels| labels.title).to_owned();
    let config = args.network.config(QueueLimits::default())?;
    network::allow_connections(config.limits.max_connections);
    let keys = Keys::of(&config);
    let max_message_bytes = config.limits.max_body_bytes();
    let server = Server::bind_with(config, Vec::new(), |services| {
        let limits = args.sessions;
        http::routes(Arc::new(House {
            game: game.to_owned(),
            data,
            title,
            places: Arc::new(Semaphore::new(limits.max_sessions.min(Semaphore::MAX_PERMITS))),
            limits,
            max_message_bytes,
            services,
        }))
    })?;
    network::serve(server, keys, "can play")
}

impl House {
    /// A session without a game in progress.
    fn environment(&self) -> spag_game::Result<Environment> {
        Ok(Environment::new(Session::new(&self.game, self.data.clone())?))
    }

    /// A place for a session, if there is one.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// The answer to a client that gets no place.
    fn full(&self) -> Value {
        let most = self.limits.max_sessions;
        message::error(
            "CAPACITY_REACHED",
            &format!("Server at capacity: {most}/{most} sessions active. Cannot accept new connections."),
            [("active_sessions", most.into()), ("max_sessions", most.into())],
        )
    }

    /// The time without a message after which a session ends.
    fn session_timeout(&self) -> Duration {
        Duration::try_from_secs_f64(self.limits.session_timeout).unwrap_or(Duration::MAX)
    }
}
