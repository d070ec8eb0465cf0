//! The thread that ends a communicator when the group fails, and the group when a collective does not end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::CudaEvent;

use super::communicator::Communicator;
use crate::tcp::{Fault, Shared};

/// How often it looks.
const GLANCE: Duration = Duration::from_millis(200);

/// A collective that has been handed over, for the watch.
#[derive(Debug)]
struct Airborne {
    since: Instant,
    name: &'static str,
    done: Arc<CudaEvent>,
}

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Log {
    airborne: Mutex<VecDeque<Airborne>>,
    stop: AtomicBool,
}

impl Log {
    pub(crate) fn note(&self, name: &'static str, done: Arc<CudaEvent>) {
        let mut airborne = self.airborne.lock().unwrap_or_else(PoisonError::into_inner);
        airborne.push_back(Airborne { since: Instant::now(), name, done });
    }

    /// The oldest one that has not ended, forgetting those that have.
    fn oldest(&self) -> Option<(Instant, &'static str)> {
        let mut airborne = self.airborne.lock().unwrap_or_else(PoisonError::into_inner);
        while airborne.front().is_some_and(|first| first.done.is_complete()) {
            airborne.pop_front();
        }
        airborne.front().map(|first| (first.since, first.name))
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

/// Watches until it is stopped. `patience`: how long a collective may take.
pub(crate) fn watch(communicator: &Communicator, shared: &Shared, log: &Log, patience: Duration) {
    while !log.stop.load(Ordering::Acquire) {
        if shared.wait_for_fault(GLANCE).is_some() {
            // Another thread may be inside a call that the abort of other ranks ends.
            while !communicator.abort() && !log.stop.load(Ordering::Acquire) {
                std::thread::sleep(GLANCE);
            }
            return;
        }
        if let Err(error) = communicator.check() {
            shared.raise(Fault::aborted(shared.place.rank, error.to_string()));
        }
        if let Some((since, name)) = log.oldest()
            && since.elapsed() > patience
        {
            let seconds = patience.as_secs();
            let reason = format!("{name} on its GPU did not end within {seconds} s, although all ranks live");
            shared.raise(Fault::lost(shared.place.rank, reason));
        }
    }
}
