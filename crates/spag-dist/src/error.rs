//! What can be wrong with a launch environment, with joining others, or with a collective.

use spag_io::{Classify, ErrorClass};

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a launch environment was refused, ranks did not come together, or a collective came to nothing.
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
    /// A rank belongs to another start of the run than rank 0.
    #[error(
        "rank {rank} was started again {theirs} times and rank 0 {first} times: they belong to different starts of the \
         run, and do not meet; restarts have to bring all machines to the same count"
    )]
    OtherStart {
        /// The rank.
        rank: usize,
        /// How often its launcher has started it again.
        theirs: usize,
        /// How often rank 0's has.
        first: usize,
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
    /// A rank has started something else than rank 0, or than its neighbour.
    #[error("rank {rank} is out of step: {reason}; all ranks must start the same collectives in the same order")]
    OutOfStep {
        /// The rank.
        rank: usize,
        /// What it does, and what another one does.
        reason: String,
    },
    /// The address of rank 0 is of no use.
    #[error("rank 0's address {address}: {reason}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No usable token.
    #[error("the run's token: {0}")]
    Token(String),
    /// The file in which rank 0 leaves the token is not to be trusted, or cannot be written.
    #[error("{}, where rank 0 leaves the run's token: {reason}", path.display())]
    TokenFile {
        /// The file or its folder.
        path: std::path::PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// This rank and rank 0 do not know the same token.
    #[error(
        "rank {rank} and rank 0 know different tokens; export the same SPAG_TOKEN on every node, or unset it everywhere"
    )]
    OtherToken {
        /// This rank.
        rank: usize,
    },
    /// Rank 0 could not be reached at the start.
    #[error("rank {rank} did not reach rank 0 at {address} within {seconds} s: {reason}")]
    Unreachable {
        /// This rank.
        rank: usize,
        /// Where rank 0 was looked for.
        address: String,
        /// How long.
        seconds: u64,
        /// What happened at the last attempt.
        reason: String,
    },
    /// Ranks did not come at the start.
    #[error("{} did not join at {address} within {seconds} s{seen}", named(ranks))]
    Missing {
        /// The ranks, in order.
        ranks: Vec<usize>,
        /// Where rank 0 waited.
        address: String,
        /// How long.
        seconds: u64,
        /// Who came and was not let in, in words; empty where nobody did.
        seen: String,
    },
    /// Two processes came with one rank.
    #[error("two processes say that they are rank {rank}; every process of a run needs a number of its own")]
    RankTaken {
        /// The rank.
        rank: usize,
    },
    /// The system refused sockets or threads.
    #[error("{what}: {reason}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What the system says.
        reason: String,
    },
    /// NCCL, or the GPU under it, refused something.
    #[error("NCCL: {what}: {reason}")]
    Nccl {
        /// What was asked for.
        what: &'static str,
        /// What it says.
        reason: String,
    },
    /// A buffer could not be read or written.
    #[error("a buffer could not be read or written: {0}")]
    Tensor(String),
}

/// Some ranks, in words.
pub(crate) fn named(ranks: &[usize]) -> String {
    /// More are not listed one by one.
    const LISTED: usize = 8;
    let list: Vec<String> = ranks.iter().take(LISTED).map(ToString::to_string).collect();
    let more = ranks.len().saturating_sub(LISTED);
    match (ranks.len(), more) {
        (1, _) => format!("rank {}", list.join("")),
        (_, 0) => format!("ranks {}", list.join(", ")),
        _ => format!("ranks {} and {more} more", list.join(", ")),
    }
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::Tensor(error.to_string())
    }
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Lost { .. } | Self::Aborted { .. } => ErrorClass::LostPeer,
            Self::OtherStart { .. }
            | Self::Missing { .. }
            | Self::Unreachable { .. }
            | Self::Buffer { .. }
            | Self::NoSuchRank { .. }
            | Self::Tensor(_) => ErrorClass::Failure,
            Self::MissingVariable { .. }
            | Self::NotANumber { .. }
            | Self::RankOutOfRange { .. }
            | Self::NotAPort { .. }
            | Self::Disagree { .. }
            | Self::OutOfStep { .. }
            | Self::Address { .. }
            | Self::Token(_)
            | Self::TokenFile { .. }
            | Self::OtherToken { .. }
            | Self::RankTaken { .. }
            | Self::System { .. }
            | Self::Nccl { .. } => ErrorClass::BadInput,
        }
    }
}
