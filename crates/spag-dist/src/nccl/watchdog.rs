//! The thread that aborts the communicator when the group fails, and fails the group when a collective fails or times out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cudarc::driver::{CudaEvent, CudaStream};

use super::communicator::Communicator;
use crate::cuda::{bind, driver};
use crate::pending_collectives::{Completion, PendingCollectives};
use crate::tcp::GroupState;
use crate::{Error, Result};

/// How often pending collectives are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

impl Completion for CudaEvent {
    fn is_complete(&self) -> Result<bool> {
        // Not `CudaEvent::is_complete`, which reports a failure as incomplete work.
        self.try_is_complete().map_err(driver("a pending collective"))
    }
}

/// State shared by the watchdog and the other threads of the group.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) pending: PendingCollectives<CudaEvent>,
    stop: AtomicBool,
}

impl Watched {
    /// Ends [`run_watchdog`].
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

pub(crate) fn run_watchdog(
    communicator: &Communicator,
    stream: &CudaStream,
    state: &GroupState,
    watched: &Watched,
    timeout: Duration,
) {
    let rank = state.position.rank;
    // Events belong to a context, which must be bound to a new thread, or every query fails. If binding fails, the thread
    // continues, to abort the communicator.
    if let Err(error) = bind(stream) {
        state.fail_all(Error::aborted(rank, error.to_string()));
    }
    while !watched.is_stopped() {
        if state.wait_for_failure(POLL_INTERVAL).is_some() {
            // Another thread may be inside a call, which returns when other ranks abort.
            while !communicator.abort() && !watched.is_stopped() {
                std::thread::sleep(POLL_INTERVAL);
            }
            return;
        }
        match communicator.check().and_then(|()| watched.pending.oldest()) {
            Err(error) => state.fail_all(Error::aborted(rank, error.to_string())),
            Ok(Some((since, name))) if since.elapsed() > timeout => {
                let seconds = timeout.as_secs();
                let reason =
                    format!("{name} on its GPU did not complete within {seconds} s, although all ranks are alive");
                state.fail_all(Error::lost(rank, reason));
            }
            Ok(_) => {}
        }
    }
}
