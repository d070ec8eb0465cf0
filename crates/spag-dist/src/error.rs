//! The error type of this crate.

use serde::{Deserialize, Serialize};
use spag_io::{Classify, ErrorClass};

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// `#[derive(Deserialize)]` would treat a literal `&'static str` as a borrow from the input.
type Name = &'static str;

/// Why a launch environment was rejected, ranks did not join, or a collective failed.
///
/// Ranks send each other errors that affect the whole group; variants with `skip` are local.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// A launcher's variable is set, but another one that must accompany it is not.
    #[error(
        "environment variable {name} is not set, although {implied_by} is; start the program with its launcher, or unset {implied_by}"
    )]
    #[serde(skip)]
    MissingVariable {
        /// The missing variable.
        name: Name,
        /// The variable that identifies the launcher.
        implied_by: Name,
    },
    /// A SLURM job script started the process itself, without srun.
    #[error(
        "SLURM_NTASKS is {tasks}, but this process is no task of a step: start the program with srun, or without the job's variables \
         (env -u SLURM_PROCID) for a single process"
    )]
    WithoutSrun {
        /// Tasks of the job.
        tasks: usize,
    },
    /// A variable is not a whole number or is out of range.
    #[error(
        "environment variable {name} is {:?}, which is not a whole number of at least {} and at most {}",
        spag_io::abridge(value, 200), range.0, range.1
    )]
    #[serde(skip)]
    NotANumber {
        /// The variable.
        name: Name,
        /// Its value.
        value: String,
        /// The minimum and maximum allowed values.
        range: (usize, usize),
    },
    /// The rank of this process does not fit the world size.
    #[error("environment variable {name} is {rank}, but {size_name} is {size}: ranks count from 0 to {}", size - 1)]
    #[serde(skip)]
    RankOutOfRange {
        /// The variable that holds the rank.
        name: Name,
        /// The rank.
        rank: usize,
        /// The variable that holds the world size.
        size_name: Name,
        /// The world size.
        size: usize,
    },
    /// A variable is not a TCP port.
    #[error(
        "environment variable {name} is {:?}, which is not a port between 1 and 65535",
        spag_io::abridge(value, 200)
    )]
    #[serde(skip)]
    NotAPort {
        /// The variable.
        name: Name,
        /// Its value.
        value: String,
    },
    /// The collective does not support this buffer.
    #[error("{operation}: {reason}")]
    #[serde(skip)]
    Buffer {
        /// The collective.
        operation: Name,
        /// What is wrong with the buffer.
        reason: String,
    },
    /// A collective's rank is out of range.
    #[error("{operation}: rank {rank} does not exist in a group of {size}")]
    #[serde(skip)]
    NoSuchRank {
        /// The collective.
        operation: Name,
        /// The rank.
        rank: usize,
        /// The world size.
        size: usize,
    },
    /// A rank has mismatched settings.
    #[error(
        "rank {rank} disagrees with rank 0: {} is {} there and {} on rank 0; start all ranks alike",
        spag_io::quote(what),
        said(theirs),
        said(first)
    )]
    Disagree {
        /// The first rank that differs.
        rank: usize,
        /// The setting.
        what: String,
        /// Its value on that rank.
        theirs: String,
        /// Its value on rank 0.
        first: String,
    },
    /// A rank has another restart count than rank 0.
    #[error(
        "rank {rank} was restarted {theirs} times and rank 0 {first} times: they belong to different starts of the run; \
         the launchers of all machines must count restarts alike"
    )]
    RestartMismatch {
        /// The rank.
        rank: usize,
        /// Its restart count.
        theirs: usize,
        /// The restart count of rank 0.
        first: usize,
    },
    /// A rank is lost: its connection is closed or it has stopped responding.
    #[error("lost rank {rank}: {}", said(reason))]
    Lost {
        /// The rank.
        rank: usize,
        /// How the loss was detected.
        reason: String,
    },
    /// A rank aborted the run.
    #[error("rank {rank} ended the run: {}", said(reason))]
    Aborted {
        /// The rank.
        rank: usize,
        /// The error on that rank.
        reason: String,
    },
    /// A rank started another collective than rank 0 or its neighbour.
    #[error(
        "rank {rank} is out of step: {}; all ranks must start the same collectives in the same order",
        said(reason)
    )]
    OutOfStep {
        /// The rank.
        rank: usize,
        /// The two collectives.
        reason: String,
    },
    /// The address of rank 0 is unusable.
    #[error("rank 0's address {}: {}", spag_io::quote(address), said(reason))]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// What ranks exchange cannot be written as JSON or read from it.
    #[error("the ranks' results cannot be exchanged: {0}")]
    #[serde(skip)]
    Json(String),
    /// The run's token is missing, too short, or cannot be generated.
    #[error("the run's token: {0}")]
    Token(String),
    /// The file with the run's token is unsafe or cannot be written.
    #[error("{}, the file with the run's token: {reason}", path.display())]
    TokenFile {
        /// The file or its folder.
        path: std::path::PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// This rank and rank 0 have different tokens.
    #[error(
        "rank {rank} and rank 0 have different tokens; export the same SPAG_TOKEN on every node, or unset it everywhere"
    )]
    TokenMismatch {
        /// This rank.
        rank: usize,
    },
    /// This rank could not connect to rank 0.
    #[error("rank {rank} did not reach rank 0 at {} within {seconds} s: {}", spag_io::quote(address), said(reason))]
    Unreachable {
        /// This rank.
        rank: usize,
        /// The address that was tried.
        address: String,
        /// The timeout.
        seconds: u64,
        /// The error of the last attempt.
        reason: String,
    },
    /// Some ranks did not connect to rank 0.
    #[error("{} did not join at {} within {seconds} s{}", ranks_text(ranks), spag_io::quote(address), said(rejected))]
    MissingRanks {
        /// The ranks, in order.
        ranks: Vec<usize>,
        /// The address on which rank 0 listened.
        address: String,
        /// The timeout.
        seconds: u64,
        /// The rejected connections, as text; may be empty.
        rejected: String,
    },
    /// Hosts have different numbers of ranks, so that shards within a host would differ.
    #[error(
        "rank {rank} is on a host with {theirs} ranks, and rank 0 on one with {first}: shards within a host need as many ranks on \
         every host; start equally many, or shard over all ranks"
    )]
    UnequalHosts {
        /// The first rank on a host of another size.
        rank: usize,
        /// Ranks on its host.
        theirs: usize,
        /// Ranks on rank 0's host.
        first: usize,
    },
    /// The ranks of a host do not follow each other.
    #[error(
        "rank {rank} has the local rank {local_rank}, not {expected}: shards within a host need ranks that are numbered host by host \
         (srun --distribution=block, mpirun --map-by slot) and a launcher that sets the number of ranks on each host"
    )]
    HostOrder {
        /// The first rank out of order.
        rank: usize,
        /// Its local rank.
        local_rank: usize,
        /// The local rank of its place.
        expected: usize,
    },
    /// Two processes joined with the same rank.
    #[error("two processes joined as rank {rank}; every process of a run needs its own rank")]
    DuplicateRank {
        /// The rank.
        rank: usize,
    },
    /// The system could not provide sockets or threads.
    #[error("{what}: {reason}")]
    #[serde(skip)]
    System {
        /// The resource.
        what: Name,
        /// The system's error.
        reason: String,
    },
    /// This build has no process group for this device.
    #[error("this build has no process group for {device}; choose another device, or build with its feature")]
    #[serde(skip)]
    NoGroup {
        /// The device.
        device: String,
    },
    /// An NCCL or CUDA call failed.
    #[error("NCCL: {what}: {reason}")]
    #[serde(skip)]
    Nccl {
        /// The operation.
        what: Name,
        /// NCCL's or the driver's error.
        reason: String,
    },
    /// A buffer could not be read or written.
    #[error("a buffer could not be read or written: {0}")]
    Tensor(String),
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Lost { .. } | Self::Aborted { .. } => ErrorClass::LostPeer,
            // Late ranks may be in time at the next attempt.
            Self::RestartMismatch { .. }
            | Self::MissingRanks { .. }
            | Self::Unreachable { .. }
            // Out of threads or sockets, or a failing GPU.
            | Self::System { .. }
            | Self::Nccl { .. }
            | Self::Buffer { .. }
            | Self::NoSuchRank { .. }
            | Self::Json(_)
            | Self::Tensor(_) => ErrorClass::Failure,
            Self::MissingVariable { .. }
            | Self::WithoutSrun { .. }
            | Self::NotANumber { .. }
            | Self::RankOutOfRange { .. }
            | Self::NotAPort { .. }
            | Self::Disagree { .. }
            | Self::OutOfStep { .. }
            | Self::Address { .. }
            | Self::Token(_)
            | Self::TokenFile { .. }
            | Self::TokenMismatch { .. }
            | Self::UnequalHosts { .. }
            | Self::HostOrder { .. }
            | Self::DuplicateRank { .. }
            | Self::NoGroup { .. } => ErrorClass::BadInput,
        }
    }
}

impl Error {
    pub(crate) fn lost(rank: usize, reason: impl Into<String>) -> Self {
        Self::Lost { rank, reason: reason.into() }
    }

    pub(crate) fn aborted(rank: usize, reason: impl Into<String>) -> Self {
        Self::Aborted { rank, reason: reason.into() }
    }

    /// A rank left the group normally, but other ranks need more collectives.
    pub(crate) fn left(rank: usize, after: u64) -> Self {
        Self::lost(rank, format!("it left after {after} collectives, and this run needs more of them"))
    }

    pub(crate) fn system(what: &'static str) -> impl Fn(std::io::Error) -> Self {
        move |error| Self::System { what, reason: error.to_string() }
    }
}

/// Text from another rank, on one line and abridged.
fn said(text: &str) -> String {
    const LIMIT: usize = 2000;
    spag_io::escape(&spag_io::abridge(text, LIMIT)).into_owned()
}

/// `rank 3`, `ranks 1, 3` or `ranks 0, …, 7 and 9 more`.
pub(crate) fn ranks_text(ranks: &[usize]) -> String {
    const LISTED: usize = 8;
    let list: Vec<String> = ranks.iter().take(LISTED).map(ToString::to_string).collect();
    match (ranks.len(), ranks.len().saturating_sub(LISTED)) {
        (1, _) => format!("rank {}", list.join("")),
        (_, 0) => format!("ranks {}", list.join(", ")),
        (_, more) => format!("ranks {} and {more} more", list.join(", ")),
    }
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::Tensor(error.to_string())
    }
}
