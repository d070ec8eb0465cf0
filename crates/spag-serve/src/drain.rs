//! Graceful shutdown: new requests are refused, and requests in progress are completed.

use std::sync::Arc;

use tokio::sync::watch;

/// Counts the requests in progress, and says whether new ones are accepted.
#[derive(Clone)]
pub(crate) struct Drain {
    ending: Arc<watch::Sender<bool>>,
    requests: Arc<watch::Sender<usize>>,
}

/// A request in progress, until it is dropped.
pub(crate) struct Busy(Arc<watch::Sender<usize>>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.send_modify(|number| *number = number.saturating_sub(1));
    }
}

impl Drain {
    pub(crate) fn new() -> Self {
        Self { ending: Arc::new(watch::Sender::new(false)), requests: Arc::new(watch::Sender::new(0)) }
    }

    /// Counts a request.
    pub(crate) fn enter(&self) -> Busy {
        self.requests.send_modify(|number| *number += 1);
        Busy(self.requests.clone())
    }

    /// Refuses new requests from now on.
    pub(crate) fn begin(&self) {
        self.ending.send_replace(true);
    }

    /// Whether new requests are refused.
    pub(crate) fn has_begun(&self) -> bool {
        *self.ending.borrow()
    }

    /// Waits until no request is in progress.
    pub(crate) async fn done(&self) {
        // Never an error: the sender is here.
        let _ = self.requests.subscribe().wait_for(|number| *number == 0).await;
    }
}
