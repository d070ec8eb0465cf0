//! Errors of the launcher.

use std::io;

use super::RankExit;
use spag_cli::Signal;

/// Why a launch failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// A rank failed.
    #[error(
        "rank {rank} failed first: {exit}{}{}",
        others(*of),
        again(*starts)
    )]
    Failed {
        rank: usize,
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
        rank: usize,
        /// How often the ranks were started.
        starts: usize,
    },
    /// The launcher received a signal.
    #[error("stopped by {0}, and all ranks with it")]
    Stopped(Signal),
    /// The system refused a process or thread.
    #[error("rank {rank} cannot be started")]
    Start { rank: usize, source: io::Error },
    /// The status of a process is not available.
    #[error("the ranks cannot be watched")]
    Watch(#[source] io::Error),
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

impl From<LaunchError> for spag_cli::Error {
    fn from(error: LaunchError) -> Self {
        let exit_code = match &error {
            LaunchError::Failed { exit, .. } => exit.exit_code(),
            LaunchError::Stopped(signal) => return Self::Stopped { signal: *signal, message: error.to_string() },
            _ => spag_cli::exit::FAILURE,
        };
        Self::Other { exit_code, source: Box::new(error) }
    }
}
