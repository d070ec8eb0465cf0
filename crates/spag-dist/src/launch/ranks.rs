//! The rank processes of this machine.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal as Unix, WaitId, WaitIdOptions, WaitOptions, kill_process_group, test_kill_process_group, waitid,
    waitpgid,
};

use spag_io::Signal;

use super::error::{LaunchError, Result};
use super::numa::CpuList;
use super::output::Output;
use super::port::MasterPort;
use super::rank;
use super::rank_exit::RankExit;

/// Time limit for copying the last output.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// The program of the ranks and its environment.
#[derive(Debug)]
pub(super) struct LaunchConfig {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) ranks_per_node: usize,
    pub(super) nodes: usize,
    pub(super) node_rank: usize,
    pub(super) master_addr: String,
    pub(super) master_port: MasterPort,
    pub(super) token: String,
    /// Variables of timeouts that are set, in seconds.
    pub(super) timeouts: Vec<(&'static str, usize)>,
    /// The CPUs of each rank of this machine; `None` if they may run anywhere.
    pub(super) cpus: Option<Vec<CpuList>>,
    /// RAYON_NUM_THREADS of each rank, unless the environment sets it.
    pub(super) threads: Option<usize>,
}

impl LaunchConfig {
    /// The global rank of a local rank.
    pub(super) fn rank(&self, local_rank: usize) -> usize {
        self.node_rank * self.ranks_per_node + local_rank
    }

    fn environment(&self, local_rank: usize, restarts: usize) -> Vec<(&'static str, String)> {
        let mut all = vec![
            ("RANK", self.rank(local_rank).to_string()),
            ("WORLD_SIZE", (self.nodes * self.ranks_per_node).to_string()),
            ("LOCAL_RANK", local_rank.to_string()),
            ("LOCAL_WORLD_SIZE", self.ranks_per_node.to_string()),
            ("GROUP_RANK", self.node_rank.to_string()),
            ("MASTER_ADDR", self.master_addr.clone()),
            ("MASTER_PORT", self.master_port.number().to_string()),
            ("SPAG_TOKEN", self.token.clone()),
            ("SPAG_RESTART_COUNT", restarts.to_string()),
        ];
        all.extend(self.timeouts.iter().map(|(name, seconds)| (*name, seconds.to_string())));
        all.extend(self.threads.map(|threads| ("RAYON_NUM_THREADS", threads.to_string())));
        all
    }
}

/// The ranks of this machine; killed when dropped.
#[derive(Debug)]
pub(super) struct Ranks {
    ranks: Vec<Rank>,
    output: Output,
}

#[derive(Debug)]
struct Rank {
    child: Child,
    /// The process group led by the rank. Signals also reach its child processes; Ctrl-C on the terminal does not reach it
    /// directly.
    group: Pid,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// The rank has exited, but some of its child processes have not.
    ChildrenRunning,
    Ended,
}

impl Ranks {
    /// Starts all ranks of this machine.
    ///
    /// # Errors
    /// [`LaunchError::Start`]; ranks already started are killed.
    pub(super) fn start(config: &LaunchConfig, restarts: usize) -> Result<Self> {
        adopt_orphans();
        let mut all = Self { ranks: Vec::new(), output: Output::default() };
        for local_rank in 0..config.ranks_per_node {
            all.start_one(config, local_rank, restarts)?;
        }
        Ok(all)
    }

    fn start_one(&mut self, config: &LaunchConfig, local_rank: usize, restarts: usize) -> Result<()> {
        let number = config.rank(local_rank);
        let fail = |source| LaunchError::Start { rank: number, source };
        let own = std::env::current_exe().map_err(fail)?;
        let single = config.nodes * config.ranks_per_node == 1;
        let pipe = || if single { Stdio::inherit() } else { Stdio::piped() };
        let cpus = config.cpus.as_ref().and_then(|all| all.get(local_rank));
        let mut child = Command::new(own)
            .args(rank::arguments(process::id(), cpus, &config.program, &config.args))
            .envs(config.environment(local_rank, restarts))
            // The system stops background process groups that read from the terminal.
            .stdin(Stdio::null())
            .stdout(pipe())
            .stderr(pipe())
            .process_group(0)
            .spawn()
            .map_err(fail)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let group = Pid::from_child(&child);
        self.ranks.push(Rank { child, group, state: State::Running });
        stdout.map(|from| self.output.copy(number, from, || io::stdout().lock())).transpose()?;
        stderr.map(|from| self.output.copy(number, from, || io::stderr().lock())).transpose()?;
        Ok(())
    }

    /// The local ranks that have ended since the last call.
    ///
    /// # Errors
    /// [`LaunchError::Watch`].
    pub(super) fn poll(&mut self) -> Result<Vec<(usize, RankExit)>> {
        let mut ended = Vec::new();
        for (local_rank, rank) in self.ranks.iter_mut().enumerate() {
            if let Some(exit) = rank.poll().map_err(LaunchError::Watch)? {
                ended.push((local_rank, exit));
            }
        }
        Ok(ended)
    }

    /// The local ranks whose processes are suspended.
    pub(super) fn stopped(&self) -> Vec<usize> {
        let ranks = self.ranks.iter().enumerate();
        ranks.filter(|(_, rank)| rank.is_stopped()).map(|(local_rank, _)| local_rank).collect()
    }

    /// Whether the ranks and their child processes have exited.
    pub(super) fn all_ended(&self) -> bool {
        self.ranks.iter().all(|rank| rank.state == State::Ended)
    }

    /// Sends a signal to all running ranks.
    pub(super) fn send(&self, signal: Signal) {
        for rank in self.not_ended() {
            rank.send(unix(signal));
            if signal.ends() {
                // A suspended process handles it only after it continues.
                rank.send(Unix::CONT);
            }
        }
    }

    /// Kills all running ranks.
    pub(super) fn kill(&self) {
        self.not_ended().for_each(|rank| rank.send(Unix::KILL));
    }

    /// The process IDs of running ranks.
    pub(super) fn running(&self) -> Vec<u32> {
        self.ranks.iter().filter(|rank| rank.state == State::Running).map(|rank| rank.child.id()).collect()
    }

    /// Waits until the output of the ranks is copied.
    pub(super) fn finish(&self) {
        self.output.finish(OUTPUT_TIMEOUT);
    }

    fn not_ended(&self) -> impl Iterator<Item = &Rank> {
        self.ranks.iter().filter(|rank| rank.state != State::Ended)
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Rank {
    fn poll(&mut self) -> io::Result<Option<RankExit>> {
        let ended = match self.state {
            State::Running => self.child.try_wait()?.map(RankExit::from),
            State::ChildrenRunning | State::Ended => None,
        };
        if ended.is_some() {
            self.state = State::ChildrenRunning;
        }
        if self.state == State::ChildrenRunning {
            while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
            if test_kill_process_group(self.group).is_err() {
                self.state = State::Ended;
            }
        }
        Ok(ended)
    }

    fn is_stopped(&self) -> bool {
        // Does not reap the process.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.state == State::Running
            && waitid(WaitId::Pid(self.group), options)
                .is_ok_and(|status| status.is_some_and(|status| status.stopped()))
    }

    fn send(&self, signal: Unix) {
        // Fails if the group has just exited.
        let _ = kill_process_group(self.group, signal);
    }
}

fn unix(signal: Signal) -> Unix {
    match signal {
        Signal::Interrupt => Unix::INT,
        Signal::Terminate => Unix::TERM,
        Signal::Hangup => Unix::HUP,
        Signal::User1 => Unix::USR1,
        Signal::User2 => Unix::USR2,
    }
}

/// Makes orphans of ranks children of the launcher, so that it can wait for them. In a container no other process may
/// do so.
#[cfg(target_os = "linux")]
fn adopt_orphans() {
    // If this fails, the launcher waits for orphans until the grace period ends.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_has_the_variables_of_torchrun() {
        let config = LaunchConfig {
            program: "/bin/true".into(),
            args: Vec::new(),
            ranks_per_node: 4,
            nodes: 2,
            node_rank: 1,
            master_addr: "node0".into(),
            master_port: MasterPort::Fixed(29500),
            token: "secret".into(),
            timeouts: Vec::new(),
            cpus: None,
            threads: Some(3),
        };
        let environment = config.environment(2, 1);
        let value = |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
        assert_eq!([value("RANK"), value("WORLD_SIZE"), value("LOCAL_RANK")], [Some("6"), Some("8"), Some("2")]);
        assert_eq!([value("LOCAL_WORLD_SIZE"), value("GROUP_RANK")], [Some("4"), Some("1")]);
        assert_eq!([value("MASTER_ADDR"), value("MASTER_PORT")], [Some("node0"), Some("29500")]);
        assert_eq!([value("SPAG_TOKEN"), value("SPAG_RESTART_COUNT")], [Some("secret"), Some("1")]);
        assert_eq!(value("RAYON_NUM_THREADS"), Some("3"));
    }
}
