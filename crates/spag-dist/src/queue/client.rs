//! The queue on ranks other than 0: callers' requests, and a thread that sends heartbeats in between.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Assignment, MAX_ITEMS, Reply, Request};
use crate::net::{Hello, Membership, NO_SESSION, PeerEvent, Peers, Service, connect_to_rank0, thread};
use crate::{Error, JoinOptions, LaunchEnv, Result};

/// Time that a leaving rank waits for its last messages to be received.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Client {
    link: Arc<Mutex<Link>>,
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The connection to rank 0.
#[derive(Debug)]
struct Link {
    rank: usize,
    rank0: Peers,
    /// The reply to the last [`Request::Next`].
    assignment: Option<Assignment>,
    finished: bool,
    failure: Option<Error>,
}

impl Client {
    pub(crate) fn open(env: &LaunchEnv, options: &JoinOptions, membership: Membership) -> Result<Self> {
        let deadline = Instant::now() + options.join_timeout;
        let hello = Hello { service: Service::Queue, rank: env.rank as u32, session: NO_SESSION };
        let (stream, _) = connect_to_rank0(env, options, hello, deadline)?;
        let (channel, _) = membership.join(stream, None, deadline)?;
        let mut rank0 = Peers::new(options);
        rank0.add(0, channel);
        let link = Link { rank: env.rank, rank0, assignment: None, finished: false, failure: None };
        let link = Arc::new(Mutex::new(link));
        let (stop, stopped) = mpsc::channel();
        let (shared, pause) = (Arc::clone(&link), options.heartbeat_interval / 2);
        let thread = thread("queue", move || {
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                // A caller that holds the lock sends heartbeats itself, and callers report failures.
                if let Ok(mut link) = shared.try_lock() {
                    let _ = link.round(Instant::now());
                }
            }
        })?;
        Ok(Self { link, stop: Some(stop), thread: Some(thread) })
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next(&self, at_most: usize) -> Result<Assignment> {
        // Held until the reply, so that it reaches the right caller.
        let mut link = self.link();
        link.rank0.send(|_| true, &Request::Next { at_most: at_most.clamp(1, MAX_ITEMS) });
        loop {
            let interval = link.rank0.interval;
            link.round(Instant::now() + interval)?;
            if let Some(assignment) = link.assignment.take() {
                return Ok(assignment);
            }
            if link.finished {
                return Ok(Assignment::Finished);
            }
        }
    }

    pub(crate) fn done(&self, items: &[usize]) -> Result<()> {
        // Without duplicates, since lists may be long.
        let items: Vec<usize> = BTreeSet::from_iter(items.iter().copied()).into_iter().collect();
        let mut link = self.link();
        for items in items.chunks(MAX_ITEMS) {
            link.rank0.send(|_| true, &Request::Done { items: items.to_vec() });
        }
        link.round(Instant::now())
    }
}

impl Link {
    /// Handles messages of rank 0 until a time.
    ///
    /// # Errors
    /// The queue has failed. Once all items are done, failures are ignored.
    fn round(&mut self, until: Instant) -> Result<()> {
        if self.finished {
            return Ok(());
        }
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        for (_, event) in self.rank0.round(&Request::Heartbeat, &[], until) {
            let failure = match event {
                PeerEvent::Message(Reply::Heartbeat) => continue,
                PeerEvent::Message(Reply::Assigned(Assignment::Finished)) => {
                    self.finished = true;
                    continue;
                }
                PeerEvent::Message(Reply::Assigned(assignment)) => {
                    self.assignment = Some(assignment);
                    continue;
                }
                PeerEvent::Message(Reply::Failed(error)) => error,
                PeerEvent::Message(Reply::Expired { reason }) => {
                    Error::lost(self.rank, format!("rank 0 reassigned its items: {reason}"))
                }
                PeerEvent::Ended(reason) | PeerEvent::Silent(reason) => Error::lost(0, reason),
            };
            self.failure.get_or_insert(failure);
        }
        if self.finished {
            self.rank0.remove(0);
            self.failure = None;
        }
        self.failure.clone().map_or(Ok(()), Err)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.link().rank0.close(LEAVE_TIMEOUT);
    }
}
