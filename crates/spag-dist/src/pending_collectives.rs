//! Collectives that a GPU has not completed yet.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::Result;

/// Queries whether the work before a point of a stream has completed.
pub(crate) trait Completion {
    /// # Errors
    /// The device failed, so the work never completes, or the query failed.
    fn is_complete(&self) -> Result<bool>;
}

#[derive(Debug)]
struct PendingCollective<E> {
    since: Instant,
    name: &'static str,
    done: Arc<E>,
}

/// Collectives that are enqueued but not completed, oldest first.
#[derive(Debug)]
pub(crate) struct PendingCollectives<E>(Mutex<VecDeque<PendingCollective<E>>>);

impl<E> Default for PendingCollectives<E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<E: Completion> PendingCollectives<E> {
    fn list(&self) -> MutexGuard<'_, VecDeque<PendingCollective<E>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, name: &'static str, done: Arc<E>) {
        self.list().push_back(PendingCollective { since: Instant::now(), name, done });
    }

    /// Start and name of the oldest pending collective; removes completed ones.
    ///
    /// # Errors
    /// As [`Completion::is_complete`]. A failed device must not be mistaken for a slow one, whose timeout is ten
    /// minutes.
    pub(crate) fn oldest(&self) -> Result<Option<(Instant, &'static str)>> {
        let mut list = self.list();
        while let Some(first) = list.front() {
            if !first.done.is_complete()? {
                return Ok(Some((first.since, first.name)));
            }
            list.pop_front();
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    impl Completion for Result<bool> {
        fn is_complete(&self) -> Result<bool> {
            self.clone()
        }
    }

    #[test]
    fn completed_collectives_are_removed_and_the_oldest_of_the_others_is_named() {
        let pending = PendingCollectives::default();
        assert_eq!(pending.oldest(), Ok(None));
        for (name, done) in [("first", true), ("second", false), ("third", true)] {
            pending.push(name, Arc::new(Ok(done)));
        }
        assert_eq!(pending.oldest().map(|oldest| oldest.map(|(_, name)| name)), Ok(Some("second")));
        assert_eq!(pending.list().len(), 2);
    }

    #[test]
    fn a_failed_device_is_reported_and_does_not_pass_for_a_pending_collective() {
        let pending = PendingCollectives::default();
        let failed = Error::Tensor("an illegal memory access".into());
        pending.push("all-reduce", Arc::new(Err(failed.clone())));
        assert_eq!(pending.oldest(), Err(failed));
    }
}
