//! A child process that plays one game after another, by lines of JSON.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use spag_io::quote;

use super::answer::Answer;
use super::settings::PythonSettings;

/// The program of the process.
const SCRIPT: &str = include_str!("../../../../python/textarena_child.py");
/// The most bytes of an answer.
const MAX_LINE: u64 = 16 << 20;
/// The most bytes of diagnostics that are kept: the last ones.
const DIAGNOSTICS: usize = 2000;
/// Time for the last lines of a process that has ended.
const LAST_LINES: Duration = Duration::from_secs(2);

/// The end of what a process writes to stderr.
#[derive(Debug, Default)]
struct Diagnostics(Mutex<VecDeque<u8>>);

/// A process. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Process {
    child: RefCell<Child>,
    requests: Sender<String>,
    answers: Receiver<Vec<u8>>,
    diagnostics: Arc<Diagnostics>,
    /// Ends when stderr is closed.
    diagnosed: Receiver<()>,
    timeout: Duration,
}

impl Process {
    /// Starts the process of a game.
    ///
    /// # Errors
    /// The interpreter does not start.
    pub(super) fn start(settings: &PythonSettings, game: &str) -> Result<Self, String> {
        let failed = |error: std::io::Error| {
            let python = quote(&settings.python);
            format!("{python} does not start: {error}; set --python to an interpreter that has the package textarena")
        };
        let mut command = Command::new(&settings.python);
        command.args(["-c", SCRIPT, "--game", game]).env("PYTHONHASHSEED", "0");
        // A process group of its own: an interrupt at the terminal is for this program, which then ends the process.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("the process has no pipes".to_owned());
        };
        let (sender, answers) = sync_channel(1);
        let (requests, waiting) = channel();
        let (end, diagnosed) = sync_channel(0);
        let diagnostics = Arc::new(Diagnostics::default());
        let kept = diagnostics.clone();
        let timeout = settings.timeout;
        let process = Self { child: RefCell::new(child), requests, answers, diagnostics, diagnosed, timeout };
        let threads: [Box<dyn FnOnce() + Send>; 3] = [
            Box::new(move || write_requests(stdin, waiting)),
            Box::new(move || read_answers(stdout, sender)),
            Box::new(move || {
                kept.read(stderr);
                drop(end);
            }),
        ];
        for work in threads {
            thread::Builder::new().spawn(work).map_err(failed)?;
        }
        Ok(process)
    }

    /// Sends a request. It does not wait: a process that reads nothing is noticed when its answer is awaited.
    ///
    /// # Errors
    /// The process has ended.
    pub(super) fn send(&self, request: &Value) -> Result<(), String> {
        self.requests.send(format!("{request}\n")).map_err(|_| self.ended())
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// The process has ended, is silent, or writes something else.
    pub(super) fn receive(&self) -> Result<Answer, String> {
        let line = self.answers.recv_timeout(self.timeout).map_err(|error| match error {
            RecvTimeoutError::Disconnected => self.ended(),
            RecvTimeoutError::Timeout => {
                let seconds = self.timeout.as_secs_f64();
                self.with_diagnostics(&format!("the process of the game did not answer within {seconds} seconds"))
            }
        })?;
        serde_json::from_slice(&line).map_err(|error| {
            let line = String::from_utf8_lossy(line.get(..200).unwrap_or(&line)).into_owned();
            self.with_diagnostics(&format!("the process of the game wrote no answer ({error}): {}", quote(&line)))
        })
    }

    /// What is said of a process that has ended.
    fn ended(&self) -> String {
        let _ = self.diagnosed.recv_timeout(LAST_LINES);
        let mut child = self.child.borrow_mut();
        // It has closed its output. One that goes on without is of no use.
        let _ = child.kill();
        let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        self.with_diagnostics(&format!("the process of the game ended: {status}"))
    }

    fn with_diagnostics(&self, what: &str) -> String {
        match self.diagnostics.text() {
            text if text.is_empty() => what.to_owned(),
            text => format!("{what}; its last lines: {}", quote(&text)),
        }
    }
}

/// Writes requests until the process ends, or no more will come.
fn write_requests(mut stdin: ChildStdin, requests: Receiver<String>) {
    while let Ok(request) = requests.recv() {
        if stdin.write_all(request.as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads lines until the process ends or the receiver is gone.
fn read_answers(stdout: ChildStdout, answers: SyncSender<Vec<u8>>) {
    let mut lines = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        if !read.is_ok_and(|bytes| bytes > 0) || answers.send(line).is_err() {
            return;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Diagnostics {
    /// Reads to the end. A pipe that is not read would stop the process.
    fn read(&self, mut stderr: impl Read) {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = stderr.read(&mut bytes) {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend(&bytes[..read]);
            let extra = kept.len().saturating_sub(DIAGNOSTICS);
            kept.drain(..extra);
        }
    }

    fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).trim().to_owned()
    }
}
