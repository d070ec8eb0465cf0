//! A stream's thread, and event signalling.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::fault::fault;
use crate::result::Error;
use crate::work::Work;

/// The error that every call returns after a kernel failed; 0 before.
static STICKY: AtomicI32 = AtomicI32::new(0);

/// Fails if a kernel of this process has failed.
pub(crate) fn check_sticky() -> Result<(), Error> {
    if STICKY.load(Ordering::Acquire) == 0 { Ok(()) } else { Err(Error::LaunchFailed) }
}

/// The number of times an event was recorded, and completed.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    done: Mutex<u64>,
    changed: Condvar,
}

impl Signal {
    fn raise(&self, to: u64) {
        let mut done = lock(&self.done);
        *done = (*done).max(to);
        self.changed.notify_all();
    }

    pub(crate) fn wait(&self, at_least: u64) {
        let mut done = lock(&self.done);
        while *done < at_least {
            done = self.changed.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn is_at(&self, at_least: u64) -> bool {
        *lock(&self.done) >= at_least
    }
}

/// A task of a stream.
pub(crate) enum Task {
    /// Its memory stays mapped until it has run.
    Run(Work),
    Record(Arc<Signal>, u64),
    Wait(Arc<Signal>, u64),
    /// Waits until a number in page-locked memory of the host, at this address, is at least this one.
    WaitValue(usize, u32),
}

#[derive(Default)]
struct State {
    tasks: VecDeque<Task>,
    given: u64,
    done: u64,
    ended: bool,
}

/// The work of a stream, executed in order by a thread.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    /// Starts a queue and its thread.
    pub(crate) fn start(stream: usize) -> Arc<Self> {
        let queue = Arc::new(Self::default());
        let own = queue.clone();
        let thread = thread::Builder::new().name(format!("stream-{stream}")).spawn(move || own.run());
        if let Err(error) = thread {
            fault!("no thread for a stream: {error}");
        }
        queue
    }

    pub(crate) fn push(&self, task: Task) {
        let mut state = lock(&self.state);
        state.tasks.push_back(task);
        state.given += 1;
        self.changed.notify_all();
    }

    /// Ends the thread after the submitted work.
    pub(crate) fn end(&self) {
        lock(&self.state).ended = true;
        self.changed.notify_all();
    }

    /// Waits until all submitted work is done.
    pub(crate) fn synchronize(&self) -> Result<(), Error> {
        let mut state = lock(&self.state);
        let given = state.given;
        while state.done < given {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        check_sticky()
    }

    fn run(&self) {
        loop {
            let mut state = lock(&self.state);
            let task = loop {
                match state.tasks.pop_front() {
                    Some(task) => break task,
                    None if state.ended => return,
                    None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            match task {
                Task::Record(signal, number) => signal.raise(number),
                Task::Wait(signal, number) => signal.wait(number),
                Task::WaitValue(at, number) => wait_value(at, number),
                // After a failure, a device executes nothing more.
                Task::Run(_) if check_sticky().is_err() => {}
                Task::Run(work) => {
                    // A panic in `run` would end this thread and block everything that waits for it forever.
                    let run = catch_unwind(AssertUnwindSafe(|| (work.run)()));
                    if let Err(why) = run.unwrap_or_else(|_| fault!("{} panicked", work.what)) {
                        eprintln!("stand-in: {}: {why}", work.what);
                        STICKY.store(Error::LaunchFailed as i32, Ordering::Release);
                    }
                }
            }
            lock(&self.state).done += 1;
            self.changed.notify_all();
        }
    }
}

/// As a device compares numbers: cyclically.
fn wait_value(at: usize, number: u32) {
    // SAFETY: the caller of `cuStreamWaitValue32` keeps the memory, which others change atomically, until the stream has passed it.
    let value = unsafe { AtomicU32::from_ptr(at as *mut u32) };
    while (value.load(Ordering::Acquire).wrapping_sub(number) as i32) < 0 {
        thread::sleep(Duration::from_micros(20));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
