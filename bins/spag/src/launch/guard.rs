//! `spag launch-rank`: what a rank is before it becomes the program that was asked for.
//!
//! A launcher that is killed with SIGKILL cannot stop its ranks. The kernel can, if each of them asks it to; so a rank
//! asks, and then turns into the program, which inherits that.

use std::{ffi::OsString, os::unix::process::CommandExt, path::PathBuf, process::Command};

use clap::Args;

use super::LaunchError;
use spag_cli::{Error, Result};

/// Ask to end with the launcher, then turn into the program.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct RankArgs {
    /// The process that started this one.
    #[arg(long, value_name = "PID")]
    launcher: u32,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// The arguments that make a rank of `launcher` out of `program` with `args`.
pub(super) fn arguments(launcher: u32, program: &std::path::Path, args: &[OsString]) -> Vec<OsString> {
    let own = ["launch-rank", "--launcher", &launcher.to_string(), "--"].map(OsString::from);
    own.into_iter().chain([program.into()]).chain(args.iter().cloned()).collect()
}

pub(crate) fn run(args: RankArgs) -> Result<()> {
    end_with_launcher()?;
    // It may have ended before it was asked after.
    if std::os::unix::process::parent_id() != args.launcher {
        return Err(Error::from(LaunchError::NoLauncher));
    }
    let mut words = args.program.into_iter();
    let path = PathBuf::from(words.next().unwrap_or_default());
    // Comes back only if it fails.
    let source = Command::new(&path).args(words).exec();
    Err(spag_io::Error::Io { path, source }.into())
}

#[cfg(target_os = "linux")]
fn end_with_launcher() -> Result<()> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|errno| Error::Signals(errno.into()))
}

/// Elsewhere nobody can be asked: ranks without peers end by their own timeouts.
#[cfg(not(target_os = "linux"))]
fn end_with_launcher() -> Result<()> {
    Ok(())
}
