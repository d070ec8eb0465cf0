//! The thread that aborts the communicator when the group fails, and fails the group when a collective times out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::CudaEvent;

use super::communicator::Communicator;
use crate::Error;
use crate::tcp::GroupState;

/// How often pending collectives are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct PendingCollective {
    since: Instant,
    name: &'static str,
    done: Arc<CudaEvent>,
}

/// The collectives that have been enqueued and have not completed, oldest first.
#[derive(Debug, Default)]
pub(crate) struct PendingCollectives {
    list: Mutex<VecDeque<PendingCollective>>,
    stop: AtomicBool,
}

impl PendingCollectives {
    fn list(&self) -> MutexGuard<'_, VecDeque<PendingCollective>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, name: &'static str, done: Arc<CudaEvent>) {
        self.list().push_back(PendingCollective { since: Instant::now(), name, done });
    }

    /// Start and name of the oldest pending collective; removes completed ones.
    fn oldest(&self) -> Option<(Instant, &'static str)> {
        let mut list = self.list();
        while list.front().is_some_and(|first| first.done.is_complete()) {
            list.pop_front();
        }
        list.front().map(|first| (first.since, first.name))
    }

    /// Ends [`run_watchdog`].
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

pub(crate) fn run_watchdog(
    communicator: &Communicator,
    state: &GroupState,
    pending: &PendingCollectives,
    timeout: Duration,
) {
    let rank = state.position.rank;
    while !pending.stop.load(Ordering::Acquire) {
        if state.wait_for_failure(POLL_INTERVAL).is_some() {
            // Another thread may be inside a call, which ends when other ranks abort.
            while !communicator.abort() && !pending.stop.load(Ordering::Acquire) {
                std::thread::sleep(POLL_INTERVAL);
            }
            return;
        }
        if let Err(error) = communicator.check() {
            state.fail_all(Error::aborted(rank, error.to_string()));
        }
        if let Some((since, name)) = pending.oldest()
            && since.elapsed() > timeout
        {
            let seconds = timeout.as_secs();
            let reason = format!("{name} on its GPU did not complete within {seconds} s, although all ranks are alive");
            state.fail_all(Error::lost(rank, reason));
        }
    }
}
