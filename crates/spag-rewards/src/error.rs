//! What can be wrong with episodes, samples and settings.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass};

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why episodes could not be turned into samples, or samples not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The discount is not a positive number.
    #[error("decay weight {given} is not a number above 0; the paper's is 0.8")]
    DecayWeight {
        /// The value given.
        given: f64,
    },
    /// A reward norm of another name.
    #[error("unknown reward norm {given:?}; use sum (the paper's) or mean")]
    UnknownRewardNorm {
        /// The name given.
        given: String,
    },
    /// An episode that cannot be judged.
    #[error("row {row}: {source}")]
    Judge {
        /// The episode's row, counted from 1.
        row: usize,
        /// What the judge said.
        source: spag_game::Error,
    },
    /// A file could not be read or written, or a row of it is invalid.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// An episode, a word list or a prompt file is invalid.
    #[error(transparent)]
    Game(#[from] spag_game::Error),
    /// A file of episodes, read twice, was not the same the second time.
    #[error(
        "{} holds other episodes on a second reading; it must be a file that nobody is writing to (not a pipe)",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Two of a job's files are the same.
    #[error("{} is named twice: as {first} and as {second}", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
        /// One of its uses.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A template for Alpaca rows lacks a placeholder or has one it cannot fill.
    #[error("{what}: {problem}")]
    Template {
        /// Which template, and in which file.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::Game(error) => error.class(),
            Self::DecayWeight { .. }
            | Self::UnknownRewardNorm { .. }
            | Self::Judge { .. }
            | Self::Changed { .. }
            | Self::SameFile { .. }
            | Self::Template { .. } => ErrorClass::BadInput,
        }
    }
}
