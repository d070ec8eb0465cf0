//! The error type of this crate.

use std::io;
use std::path::PathBuf;

use spag_io::{Classify, ErrorClass};

/// Why a server did not start, or stopped early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// A model cannot be served.
    #[error(transparent)]
    Model(#[from] spag_model::Error),
    /// A model's chat template or reasoning is unusable with these settings.
    #[error(transparent)]
    Chat(#[from] spag_chat::Error),
    /// A key file is unusable.
    #[error("{path}: {reason}", path = path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// The cause and the remedy.
        reason: String,
    },
    /// A model name is unusable.
    #[error("the name {name:?} of a model: {reason}")]
    Name {
        /// The name.
        name: String,
        /// The cause.
        reason: &'static str,
    },
    /// A CORS origin is unusable.
    #[error("the origin {origin:?} is not `*` or like https://example.org")]
    Origin {
        /// The origin.
        origin: String,
    },
    /// An allowed host is unusable.
    #[error(
        "--allowed_host {host:?}: expected a name or an address without a port, such as play.example.org, or * for all"
    )]
    Host {
        /// The host.
        host: String,
    },
    /// An added route has the path of an existing one.
    #[error("two routes have the path {path:?}")]
    Route {
        /// The path.
        path: &'static str,
    },
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}: choose another host or port")]
    Listen {
        /// Host and port.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The system cannot start threads or install signal handlers.
    #[error("the server cannot be started")]
    Start(#[source] io::Error),
    /// An engine failed while requests were served.
    #[error("the engine of {model:?} failed: {reason}")]
    Engine {
        /// The name of the model.
        model: String,
        /// The cause.
        reason: String,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::Model(error) => error.class(),
            Self::Chat(error) => error.class(),
            Self::Keys { .. } | Self::Name { .. } | Self::Origin { .. } | Self::Host { .. } => ErrorClass::BadInput,
            Self::Listen { .. } => ErrorClass::BadInput,
            Self::Route { .. } | Self::Start(_) | Self::Engine { .. } => ErrorClass::Failure,
        }
    }
}
