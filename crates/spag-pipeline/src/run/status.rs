//! The status of each rank in the run folder, for programs that watch the run (`spag watch`).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, process};

use spag_dist::LaunchEnv;
use spag_io::{Progress, abridge, error_chain, write_json_atomically};
use spag_ops::{OpenDevice, peak_device_memory};
use spag_run::{RankState, RankStatus};
use spag_train::ProcessMemory;

use super::ended::Ended;
use crate::config::RunConfig;
use crate::error::Result;

/// Time between two writes.
const EVERY: Duration = Duration::from_secs(1);
/// Bytes of a note.
const NOTE: usize = 200;
/// Bytes of the message of an error.
const MESSAGE: usize = 4096;

/// Writes what a rank does to `RUN_DIR/status/rankR.json`, and passes its progress on.
///
/// A thread of its own writes, so that a slow disk does not delay the run, and that a long step can be told from a dead
/// process. It starts with the first progress: before, the folder may be that of another run. A status that cannot be
/// written is left out: it must not end the run.
pub(super) struct StatusProgress<'a> {
    inner: &'a mut dyn Progress,
    board: Arc<Board>,
    has_started: bool,
    /// `None` before the start, at the end, and if the system has no more threads.
    writer: Option<JoinHandle<()>>,
}

/// What the run and the writing thread share.
struct Board {
    path: PathBuf,
    device: Option<OpenDevice>,
    state: Mutex<State>,
    /// Signalled when the run ends.
    ended: Condvar,
}

struct State {
    status: RankStatus,
    has_ended: bool,
}

impl<'a> StatusProgress<'a> {
    pub(super) fn new(config: &RunConfig, env: &LaunchEnv, inner: &'a mut dyn Progress) -> Self {
        let status = RankStatus {
            rank: env.rank,
            world_size: env.world_size,
            pid: process::id(),
            host: gethostname::gethostname().to_string_lossy().into_owned(),
            started: now(),
            ..RankStatus::default()
        };
        let board = Board {
            path: RankStatus::path(&config.run_dir, env.rank),
            // If it cannot be opened, the run reports it.
            device: config.device.open(env.local_rank).ok(),
            state: Mutex::new(State { status, has_ended: false }),
            ended: Condvar::new(),
        };
        Self { inner, board: Arc::new(board), has_started: false, writer: None }
    }

    /// Starts the writing thread if it has not been started.
    fn start(&mut self) {
        if std::mem::replace(&mut self.has_started, true) {
            return;
        }
        let _ = self.board.folder().map(fs::create_dir_all);
        let board = self.board.clone();
        // Without a thread to be had, only the end is written.
        self.writer = thread::Builder::new().name("status".into()).spawn(move || board.write_until_the_end()).ok();
    }

    fn change(&mut self, change: impl FnOnce(&mut RankStatus)) {
        self.start();
        change(&mut self.board.lock().status);
    }

    /// Writes how the run ended.
    pub(super) fn finish(mut self, outcome: &Result<Ended>) {
        if !self.has_started {
            return;
        }
        let (state, error) = match outcome {
            Ok(Ended { stopped: None, .. }) => (RankState::Finished, None),
            Ok(Ended { stopped: Some(error), .. }) => (RankState::Stopped, Some(error)),
            Err(error) => (RankState::Failed, Some(error)),
        };
        self.change(|status| {
            status.state = state;
            status.error = error.map(|error| abridge(&error_chain(error), MESSAGE).into_owned());
        });
        self.stop();
        self.board.write();
    }

    fn stop(&mut self) {
        self.board.lock().has_ended = true;
        self.board.ended.notify_all();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// After a panic too, no thread goes on writing.
impl Drop for StatusProgress<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Progress for StatusProgress<'_> {
    fn begin(&mut self, what: &str, total: u64) {
        self.resume(what, total, 0);
    }

    fn resume(&mut self, what: &str, total: u64, done: u64) {
        self.change(|status| {
            let (stage, part) = what.split_once(": ").unwrap_or(("", what));
            (status.stage, status.part) = (stage.to_owned(), part.to_owned());
            (status.done_before, status.done, status.total) = (done, done, total);
            (status.part_started, status.progressed) = (now(), now());
            status.note.clear();
        });
        self.inner.resume(what, total, done);
    }

    fn advance(&mut self, done: u64, note: &str) {
        self.change(|status| {
            (status.done, status.progressed) = (done, now());
            status.note.clear();
            status.note.push_str(&abridge(note, NOTE));
        });
        self.inner.advance(done, note);
    }

    fn end(&mut self) {
        self.change(|status| {
            status.part.clear();
            status.note.clear();
            (status.done_before, status.done, status.total) = (0, 0, 0);
        });
        self.inner.end();
    }

    fn message(&mut self, line: &str) {
        self.start();
        self.inner.message(line);
    }
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self) -> Option<&Path> {
        self.path.parent()
    }

    fn write_until_the_end(&self) {
        loop {
            self.write();
            let waited = self.ended.wait_timeout_while(self.lock(), EVERY, |state| !state.has_ended);
            if waited.unwrap_or_else(PoisonError::into_inner).0.has_ended {
                return;
            }
        }
    }

    fn write(&self) {
        // A run folder that was removed is not made again.
        if !self.folder().is_some_and(Path::is_dir) {
            return;
        }
        let status = {
            let mut state = self.lock();
            state.status.updated = now();
            let memory = ProcessMemory::of_this_process();
            (state.status.resident_bytes, state.status.peak_bytes) = (memory.resident, memory.peak);
            let device = self.device.as_ref().map(OpenDevice::device);
            state.status.gpu_peak_bytes = device.and_then(|device| peak_device_memory(device).ok().flatten());
            state.status.clone()
        };
        let _ = write_json_atomically(&self.path, &status);
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use spag_io::{Silent, read_json};

    use super::*;
    use crate::error::Error;

    fn config(dir: &Path) -> RunConfig {
        let file = spag_tests::root().join("configs/tiny.toml");
        RunConfig::load(file, &[format!("run_dir={}", dir.display()), "device=cpu".into()]).unwrap()
    }

    fn written(dir: &Path, rank: usize) -> Option<RankStatus> {
        read_json(RankStatus::path(dir, rank)).unwrap()
    }

    #[test]
    fn end_of_a_run_is_written_with_what_it_did_last() {
        let folder = tempfile::tempdir().unwrap();
        let (env, mut inner) = (LaunchEnv::single(), Silent);
        let mut progress = StatusProgress::new(&config(folder.path()), &env, &mut inner);
        progress.resume("spag-1: games", 9, 2);
        progress.advance(7, "attacker 50%");
        let error = Error::DamagedRun { path: "spag-1".into(), message: "x".into() };
        progress.finish(&Err(error));
        let status = written(folder.path(), 0).unwrap();
        assert_eq!((&*status.stage, &*status.part, &*status.note), ("spag-1", "games", "attacker 50%"));
        assert_eq!((status.done_before, status.done, status.total), (2, 7, 9));
        assert_eq!((status.state, status.pid, status.world_size), (RankState::Failed, process::id(), 1));
        assert!(status.error.unwrap().contains("spag-1") && status.updated >= status.part_started);
        if cfg!(target_os = "linux") {
            assert!(status.peak_bytes >= status.resident_bytes && status.resident_bytes > Some(1 << 20));
        }
        let left: Vec<_> = fs::read_dir(folder.path().join(RankStatus::FOLDER)).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file is left: {left:?}");
    }

    #[test]
    fn run_that_made_no_progress_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut inner = Silent;
        StatusProgress::new(&config(folder.path()), &LaunchEnv::single(), &mut inner)
            .finish(&Ok(Ended { report: None, stopped: None }));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn status_that_cannot_be_written_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("run");
        // A file where the folder of the status should be.
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(RankStatus::FOLDER), "").unwrap();
        let mut inner = Silent;
        let mut progress = StatusProgress::new(&config(&dir), &LaunchEnv::single(), &mut inner);
        progress.begin("im: games", 3);
        // A folder that goes away is not made again.
        fs::remove_dir_all(&dir).unwrap();
        progress.advance(3, "");
        progress.finish(&Ok(Ended { report: None, stopped: None }));
        assert!(!dir.exists());
    }
}
