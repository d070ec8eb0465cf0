//! A thread that serves one end of a queue, and ends with it.

use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;

/// State that a thread shares with its owner.
pub(super) trait Close {
    /// Asks the thread to end.
    fn close(&self);
}

/// Shared state, and the thread that works on it. Dropping it ends the thread and waits for it.
#[derive(Debug)]
pub(super) struct Worker<S: Close> {
    shared: Arc<S>,
    /// `None` without a thread, and after [`Worker::close`].
    thread: Option<JoinHandle<()>>,
}

impl<S: Close> Worker<S> {
    pub(super) fn new(shared: Arc<S>, thread: Option<JoinHandle<()>>) -> Self {
        Self { shared, thread }
    }

    /// Ends the thread and waits for it.
    pub(super) fn close(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shared.close();
            let _ = thread.join();
        }
    }
}

impl<S: Close> Deref for Worker<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.shared
    }
}

impl<S: Close> Drop for Worker<S> {
    fn drop(&mut self) {
        self.close();
    }
}
