//! The error of this crate.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass};

/// Why a lexicon cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The lexicon file could not be read.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// The lexicon file is not TOML of the expected shape.
    #[error("{path}: not a lexicon: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        reason: String,
    },
    /// The lexicon breaks a rule that [`Lexicon`](crate::Lexicon) documents.
    #[error("{path}: lexicon: {reason}", path = path.display())]
    Rule {
        /// The file.
        path: PathBuf,
        /// Which word and clue, and what is wrong.
        reason: String,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::Format { .. } | Self::Rule { .. } => ErrorClass::BadInput,
        }
    }
}
