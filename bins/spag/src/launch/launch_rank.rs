//! `spag launch-rank`: starts the program of one rank so that it dies with the launcher.
//!
//! A launcher that is killed with SIGKILL cannot stop its ranks, but the kernel can. This process sets its parent-death
//! signal, which `exec` preserves, and then executes the program.

use std::{ffi::OsString, os::unix::process::CommandExt, path::PathBuf, process::Command};

use clap::Args;

use super::LaunchError;
use spag_cli::{Error, Result};

/// Execute a program that is killed when the launcher ends. `spag launch` starts its ranks with it.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct RankArgs {
    /// Process ID of the launcher.
    #[arg(long, value_name = "PID")]
    launcher: u32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// The arguments of `spag` that start `program` with `args` as a rank of `launcher`.
pub(super) fn arguments(launcher: u32, program: &std::path::Path, args: &[OsString]) -> Vec<OsString> {
    let own = ["launch-rank", "--launcher", &launcher.to_string(), "--"].map(OsString::from);
    own.into_iter().chain([program.into()]).chain(args.iter().cloned()).collect()
}

pub(crate) fn run(args: RankArgs) -> Result<()> {
    end_with_launcher()?;
    // The launcher may have ended before the signal was set.
    if std::os::unix::process::parent_id() != args.launcher {
        return Err(Error::from(LaunchError::NoLauncher));
    }
    let mut words = args.program.into_iter();
    let path = PathBuf::from(words.next().unwrap_or_default());
    // Returns only on failure.
    let source = Command::new(&path).args(words).exec();
    Err(spag_io::Error::Io { path, source }.into())
}

#[cfg(target_os = "linux")]
fn end_with_launcher() -> Result<()> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|errno| Error::Signals(errno.into()))
}

/// Other systems have no such signal: ranks end when their heartbeats time out.
#[cfg(not(target_os = "linux"))]
fn end_with_launcher() -> Result<()> {
    Ok(())
}
