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
    /// A buffer's length does not fit the collective.
    #[error(
        "{operation}: the whole buffer has {whole} elements and each rank's part {part}, but {size} ranks need {size} x {part}"
    )]
    BufferLength {
        /// The collective.
        operation: &'static str,
        /// Elements of the buffer that spans all ranks.
        whole: usize,
        /// Elements of one rank's part.
        part: usize,
        /// Number of ranks.
        size: usize,
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
}
