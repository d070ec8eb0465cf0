//! What can be wrong with a launch environment or with the arguments of a collective.

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a launch environment or a collective was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A launcher's variable is there, but another one that must come with it is not.
    #[error(
        "environment variable {name} is not set, although {implied_by} is; start the program with its launcher, or unset {implied_by}"
    )]
    MissingVariable {
        /// The variable that is missing.
        name: &'static str,
        /// The variable that shows which launcher is at work.
        implied_by: &'static str,
    },
    /// A variable that must hold a whole number holds something else.
    #[error("environment variable {name} is {value:?}, which is not a whole number of at least {at_least}")]
    NotANumber {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
        /// The smallest value allowed.
        at_least: usize,
    },
    /// The rank of this process does not fit the number of processes.
    #[error("environment variable {name} is {rank}, but {size_name} is {size}: ranks count from 0 to {}", size - 1)]
    RankOutOfRange {
        /// The variable that holds the rank.
        name: &'static str,
        /// The rank it holds.
        rank: usize,
        /// The variable that holds the number of processes.
        size_name: &'static str,
        /// The number of processes.
        size: usize,
    },
    /// MASTER_PORT is not a TCP port.
    #[error("environment variable {name} is {value:?}, which is not a port between 1 and 65535")]
    NotAPort {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
    },
    /// A buffer that the collective cannot work on.
    #[error("{operation}: {reason}")]
    Buffer {
        /// The collective.
        operation: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A collective named a rank that the group does not have.
    #[error("{operation}: rank {rank} does not exist in a group of {size}")]
    NoSuchRank {
        /// The collective.
        operation: &'static str,
        /// The rank named.
        rank: usize,
        /// Number of ranks.
        size: usize,
    },
    /// A rank was told something else than rank 0.
    #[error("rank {rank} disagrees with rank 0: {what} is {theirs} there and {first} on rank 0; start all ranks alike")]
    Disagree {
        /// The first rank that differs.
        rank: usize,
        /// In what.
        what: String,
        /// What it was told.
        theirs: String,
        /// What rank 0 was told.
        first: String,
    },
    /// A rank is gone or silent, or the connection to it is.
    #[error("lost rank {rank}: {reason}")]
    Lost {
        /// The rank.
        rank: usize,
        /// How that was noticed.
        reason: String,
    },
    /// A rank has ended the run.
    #[error("rank {rank} ended the run: {reason}")]
    Aborted {
        /// The rank.
        rank: usize,
        /// Why, in its own words.
        reason: String,
    },
    /// A buffer could not be read or written.
    #[error("a buffer could not be read or written: {0}")]
    Tensor(String),
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::Tensor(error.to_string())
    }
}
