//! Errors of the launcher.

use std::io;

use spag_io::{Classify, ErrorClass, Signal};

use super::rank_exit::RankExit;

/// Result with [`LaunchError`].
pub(super) type Result<T, E = LaunchError> = std::result::Result<T, E>;

/// Why a launch failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A flag or a variable of the environment is invalid.
    #[error("{flag}: {problem}")]
    BadFlag {
        /// The flag with its value.
        flag: String,
        /// What is wrong with it and what is valid.
        problem: String,
    },
    /// A rank failed.
    #[error(
        "rank {rank} failed first: {exit}{}{}",
        others(*of),
        again(*starts)
    )]
    Failed {
        /// The rank.
        rank: usize,
        /// How its process ended.
        exit: RankExit,
        /// Ranks on this machine.
        of: usize,
        /// How often the ranks were started.
        starts: usize,
    },
    /// A rank hangs.
    #[error(
        "rank {rank} hangs: its process is stopped (SIGSTOP or SIGTSTP), though other ranks have ended; it was killed{}",
        again(*starts)
    )]
    Hung {
        /// The rank.
        rank: usize,
        /// How often the ranks were started.
        starts: usize,
    },
    /// The launcher received a signal.
    #[error("stopped by {0}, and all ranks with it")]
    Stopped(Signal),
    /// The system could not start a process or thread.
    #[error("rank {rank} cannot be started")]
    Start {
        /// The rank.
        rank: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The program of a rank cannot be executed.
    #[error(transparent)]
    Program(#[from] spag_io::Error),
    /// A signal cannot be handled.
    #[error("signal handlers cannot be installed")]
    Signals(#[source] io::Error),
    /// The status of a process is not available.
    #[error("the ranks cannot be watched")]
    Watch(#[source] io::Error),
    /// A rank cannot be bound to CPUs.
    #[error("the rank cannot run on CPUs {cpus} of its NUMA node; start with --numa none")]
    Bind {
        /// The CPUs.
        cpus: String,
        /// The system's error.
        source: io::Error,
    },
    /// No port is free for the rendezvous.
    #[error("no port of 127.0.0.1 is free for the rendezvous; choose one with --master_port")]
    NoPort(#[source] io::Error),
    /// `spag launch-rank` was started without a launcher, or outlived it.
    #[error("the launcher ended before its rank began; use `spag launch`, which starts both")]
    NoLauncher,
}

fn others(of: usize) -> &'static str {
    if of > 1 { "; the others were stopped" } else { "" }
}

fn again(starts: usize) -> String {
    if starts > 1 { format!(" (start {starts})") } else { String::new() }
}

impl LaunchError {
    /// The exit code of the launcher.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::BadFlag { .. } => ErrorClass::BadInput.exit_code(),
            Self::Failed { exit, .. } => exit.exit_code(),
            Self::Stopped(signal) => signal.exit_code(),
            Self::Program(error) => error.class().exit_code(),
            _ => ErrorClass::Failure.exit_code(),
        }
    }
}
