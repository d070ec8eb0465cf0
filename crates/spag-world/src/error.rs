//! The crate's one error type.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass};

/// Everything that can go wrong in this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lexicon file could not be read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The lexicon file is not TOML of the expected shape.
    #[error("{path}: not a lexicon: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Where and why parsing stopped.
        reason: String,
    },
    /// The lexicon breaks one of the rules that make it playable.
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
            Self::Io { source, .. } => source.class(),
            Self::Format { .. } | Self::Rule { .. } => ErrorClass::BadInput,
        }
    }
}
