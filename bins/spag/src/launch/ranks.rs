//! The processes of this machine: started, asked after, sent signals.

use std::{
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal as Unix, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};

use super::{Ended, LaunchError, guard, output::Output};
use spag_cli::Signal;
use spag_cli::{Error, Result};

/// How long output may take to be passed on when all ranks have ended.
const OUTPUT_TAKES: Duration = Duration::from_secs(2);

/// What every rank is told and runs.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// The program's file.
    pub(super) program: PathBuf,
    /// Its arguments.
    pub(super) args: Vec<OsString>,
    /// Processes of each machine.
    pub(super) processes: usize,
    /// Machines.
    pub(super) nodes: usize,
    /// This machine's number.
    pub(super) node: usize,
    /// Where all ranks meet.
    pub(super) address: String,
    /// Where all ranks meet.
    pub(super) port: u16,
    /// What shows that a connection comes from a rank of this run.
    pub(super) token: String,
    /// Threads for each process, where the environment does not say it.
    pub(super) threads: Option<usize>,
}

impl World {
    /// The number among all ranks of this machine's `local`-th.
    pub(super) fn rank(&self, local: usize) -> usize {
        self.node * self.processes + local
    }

    /// The environment of this machine's `local`-th rank, after so many restarts.
    fn environment(&self, local: usize, restarts: usize) -> Vec<(&'static str, String)> {
        let mut all = vec![
            ("RANK", self.rank(local).to_string()),
            ("WORLD_SIZE", (self.nodes * self.processes).to_string()),
            ("LOCAL_RANK", local.to_string()),
            ("LOCAL_WORLD_SIZE", self.processes.to_string()),
            ("GROUP_RANK", self.node.to_string()),
            ("MASTER_ADDR", self.address.clone()),
            ("MASTER_PORT", self.port.to_string()),
            ("SPAG_TOKEN", self.token.clone()),
            ("SPAG_RESTART_COUNT", restarts.to_string()),
        ];
        all.extend(self.threads.map(|threads| ("RAYON_NUM_THREADS", threads.to_string())));
        all
    }
}

/// The ranks of this machine. Dropped, it leaves none behind.
#[derive(Debug)]
pub(super) struct Ranks {
    ranks: Vec<Rank>,
    output: Option<Output>,
}

#[derive(Debug)]
struct Rank {
    child: Child,
    /// The process group that the rank leads: a signal reaches what it has started too, and Ctrl-C on the terminal does
    /// not reach it beside ours.
    group: Pid,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    /// The rank has ended; processes that it started have not.
    LeftBehind,
    Gone,
}

impl Ranks {
    /// Starts all ranks of this machine.
    ///
    /// # Errors
    /// [`LaunchError::Start`]; those that were started are killed.
    pub(super) fn start(world: &World, restarts: usize) -> Result<Self> {
        adopt_orphans();
        let mut all = Self { ranks: Vec::new(), output: Some(Output::new()) };
        for local in 0..world.processes {
            all.start_one(world, local, restarts)?;
        }
        Ok(all)
    }

    fn start_one(&mut self, world: &World, local: usize, restarts: usize) -> Result<()> {
        let rank = world.rank(local);
        let fail = |source| Error::from(LaunchError::Start { rank, source });
        let own = std::env::current_exe().map_err(fail)?;
        let alone = world.nodes * world.processes == 1;
        let pipe = || if alone { Stdio::inherit() } else { Stdio::piped() };
        let mut child = Command::new(own)
            .args(guard::arguments(process::id(), &world.program, &world.args))
            .envs(world.environment(local, restarts))
            // A process group in the background that read from the terminal would be stopped.
            .stdin(Stdio::null())
            .stdout(pipe())
            .stderr(pipe())
            .process_group(0)
            .spawn()
            .map_err(fail)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let group = Pid::from_child(&child);
        self.ranks.push(Rank { child, group, state: State::Running });
        if let Some(output) = &self.output {
            stdout.map(|from| output.pass_on(rank, from, || io::stdout().lock())).transpose()?;
            stderr.map(|from| output.pass_on(rank, from, || io::stderr().lock())).transpose()?;
        }
        Ok(())
    }

    /// The ranks that have ended since this was last asked.
    ///
    /// # Errors
    /// [`LaunchError::Watch`].
    pub(super) fn poll(&mut self) -> Result<Vec<(usize, Ended)>> {
        let mut ended = Vec::new();
        for (local, rank) in self.ranks.iter_mut().enumerate() {
            if let Some(how) = rank.poll().map_err(|source| Error::from(LaunchError::Watch(source)))? {
                ended.push((local, how));
            }
        }
        Ok(ended)
    }

    /// Whether the ranks and all that they started have ended.
    pub(super) fn all_gone(&self) -> bool {
        self.ranks.iter().all(|rank| rank.state == State::Gone)
    }

    /// Sends a signal to all that still run.
    pub(super) fn send(&self, signal: Signal) {
        for rank in self.left() {
            rank.send(unix(signal));
            if signal.ends() {
                // A process that was stopped would not hear of it.
                rank.send(Unix::CONT);
            }
        }
    }

    /// Kills all that still run.
    pub(super) fn kill(&self) {
        self.left().for_each(|rank| rank.send(Unix::KILL));
    }

    /// The process numbers of ranks that have not ended.
    pub(super) fn running(&self) -> Vec<u32> {
        self.ranks.iter().filter(|rank| rank.state == State::Running).map(|rank| rank.child.id()).collect()
    }

    /// Waits for what the ranks have said to be passed on.
    pub(super) fn finish(mut self) {
        if let Some(output) = self.output.take() {
            output.finish(OUTPUT_TAKES);
        }
    }

    fn left(&self) -> impl Iterator<Item = &Rank> {
        self.ranks.iter().filter(|rank| rank.state != State::Gone)
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Rank {
    fn poll(&mut self) -> io::Result<Option<Ended>> {
        let ended = match self.state {
            State::Running => self.child.try_wait()?.map(Ended::from),
            State::LeftBehind | State::Gone => None,
        };
        if ended.is_some() {
            self.state = State::LeftBehind;
        }
        if self.state == State::LeftBehind {
            while let Ok(Some(_)) = waitpgid(self.group, WaitOptions::NOHANG) {}
            if test_kill_process_group(self.group).is_err() {
                self.state = State::Gone;
            }
        }
        Ok(ended)
    }

    /// A group that has just ended is no error.
    fn send(&self, signal: Unix) {
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

/// Makes processes that ranks leave behind our children, so that we can tell when they have ended: in a container
/// nobody else may ask.
#[cfg(target_os = "linux")]
fn adopt_orphans() {
    // Without it we wait until the grace time is over.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_torchruns() {
        let world = World {
            program: "/bin/true".into(),
            args: Vec::new(),
            processes: 4,
            nodes: 2,
            node: 1,
            address: "node0".into(),
            port: 29500,
            token: "secret".into(),
            threads: Some(3),
        };
        let environment = world.environment(2, 1);
        let value = |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str());
        assert_eq!([value("RANK"), value("WORLD_SIZE"), value("LOCAL_RANK")], [Some("6"), Some("8"), Some("2")]);
        assert_eq!([value("LOCAL_WORLD_SIZE"), value("GROUP_RANK")], [Some("4"), Some("1")]);
        assert_eq!([value("MASTER_ADDR"), value("MASTER_PORT")], [Some("node0"), Some("29500")]);
        assert_eq!([value("SPAG_TOKEN"), value("SPAG_RESTART_COUNT")], [Some("secret"), Some("1")]);
        assert_eq!(value("RAYON_NUM_THREADS"), Some("3"));
    }
}
