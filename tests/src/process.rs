//! Processes that tests start, wait for and kill.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct Running(Child);

impl Running {
    /// Starts a process.
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")))
    }

    /// Starts a process whose output is discarded.
    pub fn start_quietly(command: &mut Command) -> Self {
        Self::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// Whether the process has exited.
    pub fn has_exited(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Waits until the process exits; `None` if it takes longer than `limit`.
    pub fn wait_for(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            match self.0.try_wait().unwrap() {
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                status => return status,
            }
        }
    }

    /// Kills the process after `delay`. Returns its status if it exited before.
    pub fn kill_after(mut self, delay: Duration) -> Option<ExitStatus> {
        std::thread::sleep(delay);
        self.0.try_wait().unwrap()
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that runs one test of this test executable, `module::name`, in a process of its own.
pub fn test_process(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command
}

/// Sends a signal by its name, e.g. `STOP`.
pub fn send_signal(process: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(status.success(), "kill -s {name} {process}");
}

/// Waits until `condition` holds; fails the test with `what` if it takes longer than `limit`.
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
