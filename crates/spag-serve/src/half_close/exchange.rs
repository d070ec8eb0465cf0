//! The request of a connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use axum::http::Version;

/// How far a connection's request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// There is none: the connection ends with what the client sends.
    Receiving,
    /// Its body is read, from a client of this version. All of it may have arrived before any of it is read.
    Reading(Version),
    /// Nothing of the answer has been sent to a client of this version.
    Working(Version),
    /// The answer is sent.
    Sending,
}

/// The state of a connection.
pub(super) struct State {
    pub(super) phase: Phase,
    /// Whether a stream of events should send a comment.
    pub(super) is_probe_due: bool,
    /// Whether the client has ended what it sends.
    pub(super) has_ended: bool,
    /// Whether the body is read up to there and has no end.
    pub(super) is_torn: bool,
    /// Who waits for the end of the answer.
    pub(super) waiting: Option<Waker>,
    /// Who waits for more of the body.
    pub(super) reading: Option<Waker>,
}

/// The request of a connection, as its stream and its bodies know it.
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

    /// Notes how far the request is.
    pub(super) fn enter(&self, phase: Phase) {
        self.state().phase = phase;
        self.wake();
    }

    /// Wakes who waits for the end of the answer.
    pub(super) fn wake(&self) {
        if let Some(waiting) = self.state().waiting.take() {
            waiting.wake();
        }
    }
}
