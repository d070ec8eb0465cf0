//! The crate's error type: what keeps the page from being served.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass};

/// Why there can be no page with these settings.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// A setting of token sampling is invalid.
    #[error(transparent)]
    Sampling(#[from] spag_model::Error),
    /// The game that the page begins with cannot be played.
    #[error(transparent)]
    Game(#[from] spag_game::Error),
    /// The list of words is empty.
    #[error("the page has no words to play with")]
    NoWords,
    /// The folder is not one of `spag run`.
    #[error("{path}: {reason}", path = path.display())]
    Run {
        /// The folder, or a file in it.
        path: PathBuf,
        /// The cause and the remedy.
        reason: String,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::Game(error) => error.class(),
            Self::Sampling(_) | Self::NoWords | Self::Run { .. } => ErrorClass::BadInput,
        }
    }
}
