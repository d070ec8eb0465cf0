//! Ranks as real processes: this test binary, restarted with a launcher's environment.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use spag_dist::{JoinOptions, LaunchEnv};
use spag_tests::{Running, reserve_port, send_signal, test_process};

use crate::{hosts, queue, tcp, tcp_join};

/// The environment variable with the job of a rank.
const JOB: &str = "SPAG_DIST_TEST_JOB";
/// Prefix of lines on a rank's stdout that are meant for the test.
const MARK: &str = "REPORT ";

/// The job of this process, if it is a rank.
#[test]
fn rank_process() {
    let Ok(job) = std::env::var(JOB) else { return };
    match job.as_str() {
        "work" | "beside" => queue::rank(&job),
        "join" => tcp_join::rank(),
        "by-host" | "within-forever" => hosts::rank(&job),
        _ => tcp::rank(&job),
    }
}

/// Sends a line to the test.
pub(crate) fn report(line: impl std::fmt::Display) {
    println!("\n{MARK}{}", line.to_string().replace('\n', " "));
}

pub(crate) fn env() -> LaunchEnv {
    LaunchEnv::detect().unwrap()
}

pub(crate) fn options() -> JoinOptions {
    let mut options = JoinOptions::detect().unwrap();
    let millis = |name: &str| std::env::var(name).ok().map(|text| Duration::from_millis(text.parse().unwrap()));
    options.heartbeat_interval = millis("TEST_HEARTBEAT").unwrap_or(options.heartbeat_interval);
    options.heartbeat_timeout = millis("TEST_HEARTBEAT_TIMEOUT").unwrap_or(options.heartbeat_timeout);
    options.join_timeout = millis("TEST_JOIN_TIMEOUT").unwrap_or(options.join_timeout);
    options.collective_timeout = millis("TEST_COLLECTIVE_TIMEOUT").unwrap_or(options.collective_timeout);
    if let Ok(version) = std::env::var("TEST_VERSION") {
        options.version = version;
    }
    options
}

/// Settings of ranks to start.
pub(crate) struct Launch {
    pub(crate) job: &'static str,
    pub(crate) size: usize,
    pub(crate) port: u16,
    folder: tempfile::TempDir,
    all: Vec<(String, String)>,
    one: Vec<(usize, String, String)>,
}

impl Launch {
    pub(crate) fn new(job: &'static str, size: usize) -> Self {
        Self { job, size, port: reserve_port(), folder: tempfile::tempdir().unwrap(), all: vec![], one: vec![] }
    }

    /// Sets a variable for all ranks.
    pub(crate) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.all.push((name.into(), value.to_string()));
        self
    }

    /// Sets a variable for one rank.
    pub(crate) fn with_for(mut self, rank: usize, name: &str, value: impl ToString) -> Self {
        self.one.push((rank, name.into(), value.to_string()));
        self
    }

    /// Ranks on `hosts` hosts, equally many on each. They connect at 0.0.0.0, since 127.0.0.1 is refused as the address of several
    /// machines.
    pub(crate) fn on_hosts(mut self, hosts: usize) -> Self {
        let local = self.size / hosts;
        for rank in 0..self.size {
            self = self.with_for(rank, "LOCAL_RANK", rank % local);
        }
        self.with("LOCAL_WORLD_SIZE", local).with("MASTER_ADDR", "0.0.0.0").with("SPAG_TOKEN", "0123456789abcdef")
    }

    /// Heartbeats that are fast, but not too fast for a busy machine.
    pub(crate) fn fast(self) -> Self {
        self.with("TEST_HEARTBEAT", 100).with("TEST_HEARTBEAT_TIMEOUT", 2500)
    }

    pub(crate) fn start_rank(&self, rank: usize) -> Rank {
        let mut command = test_process("ranks::rank_process");
        for name in ["SPAG_TOKEN", "SPAG_PORT", "TORCHELASTIC_USE_AGENT_STORE"] {
            command.env_remove(name);
        }
        command
            .env(JOB, self.job)
            .env("RANK", rank.to_string())
            .env("LOCAL_RANK", rank.to_string())
            .env("WORLD_SIZE", self.size.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", self.port.to_string())
            .env("XDG_RUNTIME_DIR", self.folder.path());
        command.envs(self.all.iter().map(|(name, value)| (name, value)));
        command.envs(self.one.iter().filter(|(of, ..)| *of == rank).map(|(_, name, value)| (name, value)));
        let mut process = Running::start(command.stdout(Stdio::piped()));
        let output = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(report) = line.strip_prefix(MARK) {
                    let _ = sender.send(report.to_owned());
                }
            }
        });
        Rank { rank, process, lines }
    }

    pub(crate) fn start(&self) -> Vec<Rank> {
        (0..self.size).map(|rank| self.start_rank(rank)).collect()
    }

    /// Token files.
    pub(crate) fn token_files(&self) -> Vec<std::path::PathBuf> {
        let folder = self.folder.path().join("spag");
        std::fs::read_dir(folder).map_or(vec![], |files| files.map(|file| file.unwrap().path()).collect())
    }
}

/// A running rank; killed when dropped.
pub(crate) struct Rank {
    pub(crate) rank: usize,
    process: Running,
    lines: std::sync::mpsc::Receiver<String>,
}

impl Rank {
    /// The next line that it reports, or the error at the end.
    pub(crate) fn receive(&self, timeout: Duration) -> String {
        match self.lines.recv_timeout(timeout) {
            Ok(line) => line,
            Err(error) => format!("rank {} reported nothing: {error}", self.rank),
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        send_signal(self.process.id(), signal);
    }

    /// Whether it exits with success in time.
    pub(crate) fn succeeds(&mut self, timeout: Duration) -> bool {
        self.process.wait_for(timeout).is_some_and(|status| status.success())
    }
}
