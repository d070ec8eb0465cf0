//! Several processes of one run, as a launcher starts them.

use std::fs::File;
use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

/// Processes that were started as the ranks of one run. Those still running are killed when this is dropped.
pub struct Ranks(Vec<Rank>);

struct Rank {
    child: Child,
    said: NamedTempFile,
}

/// How a rank ended.
#[derive(Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// What it wrote to stdout and stderr.
    pub said: String,
}

impl Ranks {
    /// Starts `count` processes, each on one thread; `command` gives that of a rank.
    pub fn start(count: usize, command: impl Fn(usize) -> Command) -> Self {
        // Free now, and hardly anybody takes it within the next moments.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).unwrap().port();
        let start = |rank: usize| {
            let said = NamedTempFile::new().unwrap();
            let (out, err) = (said.reopen().unwrap(), said.as_file().try_clone().unwrap());
            let mut command = command(rank);
            let numbers = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", count), ("LOCAL_WORLD_SIZE", count)];
            command.envs(numbers.map(|(name, value)| (name, value.to_string())));
            command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
            command.env("SPAG_TOKEN", "the token of the tests").env("RAYON_NUM_THREADS", "1");
            let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap();
            Rank { child, said }
        };
        Self((0..count).map(start).collect())
    }

    /// A rank's process number.
    pub fn id(&self, rank: usize) -> u32 {
        self.0[rank].child.id()
    }

    /// Kills a rank with SIGKILL.
    pub fn kill(&mut self, rank: usize) {
        self.0[rank].child.kill().unwrap();
    }

    /// Sends a rank a signal by its name, e.g. `STOP`.
    pub fn signal(&self, rank: usize, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.id(rank).to_string()).status().unwrap();
        assert!(status.success(), "kill -{name}");
    }

    /// Whether a rank has ended.
    pub fn has_ended(&mut self, rank: usize) -> bool {
        self.0[rank].child.try_wait().unwrap().is_some()
    }

    /// Waits until all ranks but `except` have ended, and fails the test where that takes longer than `limit`.
    pub fn ended(mut self, limit: Duration, except: Option<usize>) -> Vec<Ended> {
        let deadline = Instant::now() + limit;
        let mut all = Vec::new();
        for number in (0..self.0.len()).filter(|rank| Some(*rank) != except) {
            let rank = &mut self.0[number];
            let status = loop {
                match rank.child.try_wait().unwrap() {
                    Some(status) => break status,
                    None if Instant::now() > deadline => {
                        panic!("rank {number} has not ended within {limit:?}:\n{}", rank.said())
                    }
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            all.push(Ended { status, said: rank.said() });
        }
        all
    }

    /// Waits until all ranks have ended well.
    pub fn succeed(self) {
        for (rank, ended) in self.ended(Duration::from_secs(300), None).into_iter().enumerate() {
            assert!(ended.status.success(), "rank {rank}: {}\n{}", ended.status, ended.said);
        }
    }
}

impl Rank {
    fn said(&self) -> String {
        let mut bytes = Vec::new();
        let _ = File::open(self.said.path()).and_then(|mut file| file.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for rank in &mut self.0 {
            let _ = rank.child.kill();
            let _ = rank.child.wait();
        }
    }
}
