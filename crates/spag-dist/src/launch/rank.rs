//! `spag launch-rank`: starts the program of one rank so that it is killed when the launcher dies.
//!
//! A launcher killed with SIGKILL cannot stop its ranks, but the kernel can. This process sets its parent-death signal and
//! binds itself to the CPUs of its NUMA nodes, both of which `exec` preserves, and then executes the program.

use std::{ffi::OsString, os::unix::process::CommandExt, path::PathBuf, process::Command};

use clap::Args;

use super::error::{LaunchError, Result};
use super::numa::{self, CpuList};

/// Execute a program that is killed when the launcher ends. `spag launch` starts its ranks with it.
#[derive(Debug, Args)]
#[command(rename_all = "snake_case")]
pub struct RankArgs {
    /// Process ID of the launcher.
    #[arg(long, value_name = "PID")]
    launcher: u32,
    /// CPUs to run on, such as 0-3,8 [default: any].
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// The arguments for `spag` to start `program` with `args` as a rank of `launcher`.
pub(super) fn arguments(
    launcher: u32,
    cpus: Option<&CpuList>,
    program: &std::path::Path,
    args: &[OsString],
) -> Vec<OsString> {
    let own = ["launch-rank", "--launcher", &launcher.to_string()].map(OsString::from);
    let cpus = cpus.map(|cpus| ["--cpus".into(), cpus.to_string().into()]);
    let program = [OsString::from("--"), program.into()];
    own.into_iter().chain(cpus.into_iter().flatten()).chain(program).chain(args.iter().cloned()).collect()
}

impl RankArgs {
    /// Executes the program; returns only on failure.
    pub fn execute(self) -> LaunchError {
        if let Err(error) = end_with_launcher() {
            return error;
        }
        // The launcher may have exited before the signal was set.
        if std::os::unix::process::parent_id() != self.launcher {
            return LaunchError::NoLauncher;
        }
        if let Some(cpus) = &self.cpus
            && let Err(source) = numa::bind(cpus)
        {
            return LaunchError::Bind { cpus: cpus.to_string(), source };
        }
        let mut words = self.program.into_iter();
        let path = PathBuf::from(words.next().unwrap_or_default());
        let source = Command::new(&path).args(words).exec();
        spag_io::Error::Io { path, source }.into()
    }
}

#[cfg(target_os = "linux")]
fn end_with_launcher() -> Result<()> {
    use rustix::process::{Signal, set_parent_process_death_signal};
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|errno| LaunchError::Signals(errno.into()))
}

/// Other systems have no parent-death signal: ranks end when their heartbeats time out.
#[cfg(not(target_os = "linux"))]
fn end_with_launcher() -> Result<()> {
    Ok(())
}
