//! Several processes of one run, as a launcher starts them.

use std::fs;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use crate::{Running, reserve_port};

/// Processes that are the ranks of one run. Dropped, they are killed.
pub struct Ranks(Vec<Rank>);

struct Rank {
    process: Running,
    output: NamedTempFile,
}

/// How a rank ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it wrote to stdout and stderr.
    pub output: String,
}

impl Ranks {
    /// Starts `count` processes, each on one thread; `command` returns the command of a rank.
    pub fn start(count: usize, command: impl Fn(usize) -> Command) -> Self {
        Self::start_on_hosts(1, count, command)
    }

    /// As [`Ranks::start`], with the environment of `local` ranks on each of `hosts` hosts, which are all this machine.
    pub fn start_on_hosts(hosts: usize, local: usize, command: impl Fn(usize) -> Command) -> Self {
        let (count, port) = (hosts * local, reserve_port().to_string());
        // 127.0.0.1 is refused as the address of several machines.
        let address = if hosts == 1 { "127.0.0.1" } else { "0.0.0.0" };
        let start = |rank: usize| {
            let mut command = command(rank);
            let places = [("LOCAL_RANK", rank % local), ("LOCAL_WORLD_SIZE", local)];
            let numbers = [("RANK", rank), ("WORLD_SIZE", count)].into_iter().chain(places);
            command.envs(numbers.map(|(name, value)| (name, value.to_string())));
            command.env("MASTER_ADDR", address).env("MASTER_PORT", &port);
            command.env("SPAG_TOKEN", "the token of the tests").env("RAYON_NUM_THREADS", "1");
            Rank::start(&mut command)
        };
        Self((0..count).map(start).collect())
    }

    /// Starts processes that find their ranks in what `commands` set.
    pub fn start_all(commands: impl IntoIterator<Item = Command>) -> Self {
        Self(commands.into_iter().map(|mut command| Rank::start(&mut command)).collect())
    }

    /// The process number of a rank.
    pub fn id(&self, rank: usize) -> u32 {
        self.0[rank].process.id()
    }

    /// Whether a rank has ended.
    pub fn has_exited(&mut self, rank: usize) -> bool {
        self.0[rank].process.has_exited()
    }

    /// Kills a rank with SIGKILL.
    pub fn kill(&mut self, rank: usize) {
        self.0[rank].process.kill().unwrap();
    }

    /// Waits until all ranks except `except` have exited; fails the test if it takes longer than `limit`.
    pub fn ended(mut self, limit: Duration, except: Option<usize>) -> Vec<Ended> {
        let deadline = Instant::now() + limit;
        let ranks = self.0.iter_mut().enumerate().filter(|(number, _)| Some(*number) != except);
        let ended = ranks.map(|(number, Rank { process, output })| {
            let status = process.wait_for(deadline.saturating_duration_since(Instant::now()));
            let output = String::from_utf8_lossy(&fs::read(output.path()).unwrap()).into_owned();
            let status = status.unwrap_or_else(|| panic!("rank {number} runs after {limit:?}:\n{output}"));
            Ended { status, output }
        });
        ended.collect()
    }

    /// Waits until all ranks have succeeded.
    pub fn succeed(self) {
        let ended = self.ended(Duration::from_secs(300), None);
        let all = |(rank, ended): (usize, &Ended)| format!("rank {rank}: {}\n{}", ended.status, ended.output);
        let outputs: Vec<String> = ended.iter().enumerate().map(all).collect();
        assert!(ended.iter().all(|ended| ended.status.success()), "{}", outputs.join("\n"));
    }
}

impl Rank {
    fn start(command: &mut Command) -> Self {
        let output = NamedTempFile::new().unwrap();
        // One file position for both.
        let file = || output.as_file().try_clone().unwrap();
        let process = Running::start(command.stdin(Stdio::null()).stdout(file()).stderr(file()));
        Self { process, output }
    }
}
