//! What can go wrong when ranks are started and watched.

use std::io;

use super::Ended;
use spag_cli::Signal;

/// Why a launch did not end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// A rank ended with another exit code than 0, or by a signal.
    #[error(
        "rank {rank} failed first: {how}{}{}",
        others(*of),
        again(*starts)
    )]
    Failed {
        /// The rank.
        rank: usize,
        /// How it ended.
        how: Ended,
        /// Ranks of this machine.
        of: usize,
        /// How often all ranks were started.
        starts: usize,
    },
    /// A signal to the launcher ended the ranks.
    #[error("stopped by {0}, and all ranks with it")]
    Stopped(Signal),
    /// The system starts no more processes or threads.
    #[error("rank {rank} cannot be started")]
    Start {
        /// The rank.
        rank: usize,
        /// What the operating system said.
        source: io::Error,
    },
    /// The system tells nothing of a process.
    #[error("the ranks cannot be watched")]
    Watch(#[source] io::Error),
    /// No port is free for the ranks to meet at.
    #[error("no port of 127.0.0.1 is free for the ranks to meet at; name one with --master_port")]
    NoPort(#[source] io::Error),
    /// A rank whose launcher has gone.
    #[error("the launcher has gone before its rank began; `spag launch` starts both")]
    NoLauncher,
}

fn others(of: usize) -> &'static str {
    match of {
        0 | 1 => "",
        _ => "; the others were stopped",
    }
}

fn again(starts: usize) -> String {
    match starts {
        0 | 1 => String::new(),
        starts => format!(" (start {starts}, the last that --max_restarts allows or that could help)"),
    }
}

impl From<LaunchError> for spag_cli::Error {
    fn from(error: LaunchError) -> Self {
        let exit_code = match &error {
            LaunchError::Failed { how, .. } => how.exit_code(),
            LaunchError::Stopped(signal) => return Self::Stopped { signal: *signal, message: error.to_string() },
            _ => spag_cli::exit::FAILURE,
        };
        Self::Other { exit_code, source: Box::new(error) }
    }
}
