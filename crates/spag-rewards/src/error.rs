//! The error of this crate.

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use spag_io::{Classify, ErrorClass, quote};

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why rewards could not be assigned, or data not converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The decay weight is out of [`CreditConfig::DECAY_WEIGHT`](crate::CreditConfig::DECAY_WEIGHT).
    #[error("decay weight {given} is not a number from 0.000001 to 1000000; the paper's is 0.8")]
    DecayWeight {
        /// The value.
        given: f64,
    },
    /// The name of a reward norm is unknown.
    #[error("unknown reward norm \"{}\"; use sum (the paper's) or mean", quote(given))]
    UnknownRewardNorm {
        /// The name.
        given: String,
    },
    /// A setting of an estimator or of rewards is out of its range, or the batch too small for the estimator.
    #[error("estimator setting `{setting}` is {given}; use {remedy}")]
    Estimator {
        /// The setting.
        setting: &'static str,
        /// Its value.
        given: String,
        /// What to use.
        remedy: &'static str,
    },
    /// Rewards of something that a game does not have.
    #[error("rewards: {reason}")]
    Reward {
        /// What the game does not have, and what it has.
        reason: String,
    },
    /// An estimator compares games of a group, and the batch has one of it.
    #[error("the batch has one game of {kind} about {key:?}; group compares at least two: play each item more often")]
    LoneGame {
        /// The kind of the game.
        kind: String,
        /// What the games of the group have in common.
        key: String,
    },
    /// An advantage cannot be learned.
    #[error("an utterance of the game about {key:?} has the advantage {value}; use finite rewards of moderate size")]
    Advantage {
        /// What the game is about.
        key: String,
        /// The advantage.
        value: f64,
    },
    /// An episode cannot be judged.
    #[error("row {row}: {source}")]
    Judge {
        /// 1-based row of the episode.
        row: usize,
        /// The judge's error.
        source: spag_game::Error,
    },
    /// A file could not be read or written, or a row of it is invalid.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// An episode, a word list or a prompt file is invalid.
    #[error(transparent)]
    Game(#[from] spag_game::Error),
    /// The samples of a game would take too much memory: each repeats the game before it.
    #[error(
        "the {samples} samples of this game, each with the game before it, would take {} MiB; at most {} are allowed",
        bytes >> 20, limit >> 20
    )]
    LongGame {
        /// Number of samples.
        samples: usize,
        /// Bytes of their texts.
        bytes: usize,
        /// The most bytes.
        limit: usize,
    },
    /// A file of episodes changed between the two passes.
    #[error(
        "{} changed while it was read; it is read twice, so it must be a file (not a pipe) that no process writes to",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The system has no more threads.
    #[error("{wanted} threads cannot be started ({source}); use fewer (--threads), or allow more (ulimit -u)")]
    Threads {
        /// The number of threads.
        wanted: NonZeroUsize,
        /// The operating system's error.
        source: io::Error,
    },
    /// A template for Alpaca rows cannot be read, or its placeholders are wrong.
    #[error("{what}: {problem}")]
    Template {
        /// The file, and the template in it.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// Turns the error of a thread that did not start into an [`Error::Threads`].
    pub(crate) fn threads(wanted: NonZeroUsize) -> impl Fn(io::Error) -> Self {
        move |source| Self::Threads { wanted, source }
    }
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::Game(error) => error.class(),
            Self::Threads { .. } => ErrorClass::Failure,
            Self::DecayWeight { .. }
            | Self::Estimator { .. }
            | Self::Reward { .. }
            | Self::LoneGame { .. }
            | Self::Advantage { .. }
            | Self::UnknownRewardNorm { .. }
            | Self::Judge { .. }
            | Self::LongGame { .. }
            | Self::Changed { .. }
            | Self::Template { .. } => ErrorClass::BadInput,
        }
    }
}
