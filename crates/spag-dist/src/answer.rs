//! What another thread of a process group answers.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::Result;
use crate::tcp::{GroupState, thread_ended};

/// Interval at which a waiting thread checks whether the group has failed.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Waits until a thread answers; `None` if it has not at the deadline.
///
/// # Errors
/// The group has failed, or the thread has ended.
pub(crate) fn wait<T>(answer: &Receiver<T>, state: &GroupState, deadline: Option<Instant>) -> Result<Option<T>> {
    loop {
        match answer.recv_timeout(POLL_INTERVAL) {
            Ok(answer) => return Ok(Some(answer)),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(state.failure().unwrap_or_else(|| thread_ended(state.position.rank)));
            }
            Err(RecvTimeoutError::Timeout) => state.check()?,
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::Error;
    use crate::tcp::RingPosition;

    fn state() -> GroupState {
        GroupState::new(RingPosition { rank: 1, size: 2 }).unwrap()
    }

    #[test]
    fn answers_come_through() {
        let (sender, answer) = mpsc::channel();
        sender.send(7).unwrap();
        assert_eq!(wait(&answer, &state(), None).unwrap(), Some(7));
        drop(sender);
        assert!(wait(&answer, &state(), None).unwrap_err().to_string().contains("rank 1"));
    }

    /// A thread that never returns does not hold up the group.
    #[test]
    fn waiting_ends_at_the_deadline_or_with_the_group() {
        let (_sender, answer) = mpsc::channel::<()>();
        let state = state();
        assert_eq!(wait(&answer, &state, Some(Instant::now())).unwrap(), None);
        state.fail(Error::lost(0, "it is gone"));
        let error = wait(&answer, &state, None).unwrap_err();
        assert!(error.to_string().contains("rank 0") && error.to_string().contains("it is gone"), "{error}");
    }
}
