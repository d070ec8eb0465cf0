//! Graceful shutdown: new requests are refused, and requests in progress are completed.

use std::sync::Arc;

use tokio::sync::watch;

/// Counts the requests in progress and tracks whether new ones are accepted.
#[derive(Clone, Default)]
pub(crate) struct Drain(Arc<watch::Sender<State>>);

#[derive(Default)]
struct State {
    has_begun: bool,
    requests: usize,
}

/// A request in progress; ends on drop.
pub(crate) struct Busy(Drain);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.requests = state.requests.saturating_sub(1));
    }
}

impl Drain {
    /// Counts a request.
    pub(crate) fn enter(&self) -> Busy {
        self.0.send_modify(|state| state.requests += 1);
        Busy(self.clone())
    }

    /// Starts refusing new requests.
    pub(crate) fn begin(&self) {
        self.0.send_modify(|state| state.has_begun = true);
    }

    /// Whether new requests are refused.
    pub(crate) fn has_begun(&self) -> bool {
        self.0.borrow().has_begun
    }

    /// Waits until new requests are refused.
    pub(crate) async fn begun(&self) {
        let _ = self.0.subscribe().wait_for(|state| state.has_begun).await;
    }

    /// Waits until no request is in progress.
    pub(crate) async fn done(&self) {
        // Never an error: the sender is alive.
        let _ = self.0.subscribe().wait_for(|state| state.requests == 0).await;
    }
}
