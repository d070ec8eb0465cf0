//! The state of a connection's current request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use axum::http::Version;

/// The progress of a connection's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No request: if the client closes its side, the connection ends.
    Receiving,
    /// The body is being read, from a client of this HTTP version. It may have arrived completely before being
    /// read.
    Reading(Version),
    /// No part of the response was sent yet, to a client of this HTTP version.
    Working(Version),
    /// The response is being sent.
    Sending,
}

/// The state of a connection.
pub(super) struct State {
    pub(super) phase: Phase,
    /// Whether an event stream should send a comment.
    pub(super) is_probe_due: bool,
    /// Whether the client has closed its sending side.
    pub(super) has_ended: bool,
    /// Whether the body ended prematurely.
    pub(super) is_torn: bool,
    /// Waits for the end of the response.
    pub(super) waiting: Option<Waker>,
    /// Waits for more of the body.
    pub(super) reading: Option<Waker>,
}

/// The request of a connection, shared by its stream and bodies.
#[derive(Clone)]
pub(crate) struct Exchange(Arc<Mutex<State>>);

impl Exchange {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            phase: Phase::Receiving,
            is_probe_due: false,
            has_ended: false,
            is_torn: false,
            waiting: None,
            reading: None,
        })))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the progress of the request.
    pub(super) fn enter(&self, phase: Phase) {
        self.state().phase = phase;
        self.wake();
    }

    /// Wakes the task that waits for the end of the response.
    pub(super) fn wake(&self) {
        if let Some(waiting) = self.state().waiting.take() {
            waiting.wake();
        }
    }
}
