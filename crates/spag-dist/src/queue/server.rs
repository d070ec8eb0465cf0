//! The queue on rank 0: the list, a thread that serves the other ranks, and rank 0's own share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::tracker::ItemTracker;
use super::{Assignment, MAX_ITEMS, Reply, Request};
use crate::net::{
    Applicant, Incoming, Membership, PeerEvent, Peers, RendezvousListener, Service, Waker, Welcome, thread,
};
use crate::{Error, JoinOptions, LaunchEnv, Result};

/// Time limit for the last messages to the other ranks.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    /// `None` for a single process, and after shutdown.
    thread: Option<JoinHandle<()>>,
}

/// State shared by rank 0's own work and the thread that serves the other ranks.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    waker: Waker,
}

#[derive(Debug)]
struct State {
    items: ItemTracker,
    /// A rank with mismatched settings has joined.
    failure: Option<Error>,
    /// Ranks that have hung or never joined.
    lost: Vec<Error>,
    /// Rank 0 has dropped its queue.
    closing: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.changed.notify_all();
        self.waker.wake();
    }
}

impl Server {
    pub(crate) fn start(
        env: &LaunchEnv,
        options: &JoinOptions,
        listener: Option<RendezvousListener>,
        membership: Membership,
        items: usize,
    ) -> Result<Self> {
        let items = ItemTracker::new(items, env.world_size);
        let state = Mutex::new(State { items, failure: None, lost: Vec::new(), closing: false });
        let waker = Waker::new().map_err(Error::system("the work queue"))?;
        let shared = Arc::new(Shared { state, changed: Condvar::new(), waker });
        let Some(listener) = listener else { return Ok(Self { shared, thread: None }) };
        let server = ServerThread {
            shared: Arc::clone(&shared),
            listener,
            size: env.world_size,
            membership,
            join_timeout: options.join_timeout,
            opened: Instant::now(),
            clients: Peers::new(options),
            wants: BTreeMap::new(),
            informed: BTreeSet::new(),
            failed: None,
        };
        let thread = thread("queue", move || server.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(crate) fn next(&self, at_most: usize) -> Result<Assignment> {
        let mut state = self.shared.state();
        loop {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if let Some(assignment) = state.items.assign(0, at_most) {
                return Ok(assignment);
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ranks that have hung, so far.
    pub(crate) fn lost(&self) -> Vec<Error> {
        self.shared.state().lost.clone()
    }

    /// Ends the thread and joins it. Returns the ranks that have hung or never joined.
    pub(crate) fn close(&mut self) -> Vec<Error> {
        if let Some(thread) = self.thread.take() {
            self.shared.state().closing = true;
            self.shared.waker.wake();
            let _ = thread.join();
        }
        self.lost()
    }

    pub(crate) fn done(&self, items: &[usize]) -> Result<()> {
        let result = self.shared.state().items.done(0, items);
        self.shared.notify();
        result.map_err(|item| Error::lost(0, format!("it reported item {item}, which was never assigned")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close();
    }
}

struct ServerThread {
    shared: Arc<Shared>,
    listener: RendezvousListener,
    size: usize,
    membership: Membership,
    join_timeout: Duration,
    opened: Instant,
    clients: Peers,
    /// The number of items of each rank's pending [`Request::Next`].
    wants: BTreeMap<usize, usize>,
    /// Ranks that know that all items are done or that the queue has failed, and ranks that are lost.
    informed: BTreeSet<usize>,
    /// The failure and its time.
    failed: Option<(Error, Instant)>,
}

impl ServerThread {
    fn run(mut self) {
        loop {
            while let Some(incoming) = self.listener.acceptor.next(Instant::now()) {
                self.accept(incoming);
            }
            self.reply();
            if self.may_close(Instant::now()) {
                self.record_absent();
                return self.clients.close(CLOSE_TIMEOUT);
            }
            let wakers = [&self.shared.waker, self.listener.acceptor.arrivals()];
            let until = Instant::now() + self.clients.interval;
            for (rank, event) in self.clients.round(&Reply::Heartbeat, &wakers, until) {
                self.handle(rank, event);
            }
        }
    }

    /// Whether rank 0 has dropped its queue, and all ranks are informed or have had enough time.
    fn may_close(&self, now: Instant) -> bool {
        let state = self.shared.state();
        let all_informed = (1..self.size).all(|rank| self.informed.contains(&rank));
        let has_waited = match &self.failed {
            // Ranks that connect now receive the error.
            Some((_, since)) => now.duration_since(*since) > CLOSE_TIMEOUT,
            None => now.duration_since(self.opened) > self.join_timeout,
        };
        let gives_up = self.failed.is_none() && !state.items.is_finished();
        state.closing && (gives_up || has_waited || (all_informed && self.clients.are_flushed()))
    }

    /// Records ranks that have not joined within the time limit.
    fn record_absent(&self) {
        let mut state = self.shared.state();
        if self.failed.is_none() && state.items.is_finished() {
            let seconds = self.join_timeout.as_secs();
            let absent = (1..self.size).filter(|rank| !self.informed.contains(rank));
            state.lost.extend(absent.map(|rank| Error::lost(rank, format!("it did not join within {seconds} s"))));
        }
    }

    fn accept(&mut self, incoming: Incoming) {
        // A rank with another token fails in the handshake, and the queue continues without it.
        let Incoming::Accepted(hello, stream, _) = incoming else { return };
        if hello.service != Service::Queue {
            return;
        }
        let Some(mut applicant) = Applicant::receive(hello, stream) else { return };
        let rank = applicant.rank;
        let checked = match &self.failed {
            Some((error, _)) => Err(error.clone()),
            None => self.membership.check(&applicant, self.clients.is_open(rank)),
        };
        let Err(error) = checked else {
            // An earlier connection of this rank has ended.
            self.remove(rank);
            self.clients.add(rank, applicant.welcome(Welcome::default()));
            self.informed.remove(&rank);
            if self.clients.ranks().len() + 1 == self.size {
                self.listener.remove_token_file();
            }
            return;
        };
        applicant.refuse(&error);
        self.informed.insert(rank);
        if self.failed.is_none() {
            self.clients.send(|_| true, &Reply::Failed(error.clone()));
            self.informed.extend(self.clients.ranks());
            self.failed = Some((error.clone(), Instant::now()));
            self.shared.state().failure.get_or_insert(error);
            self.shared.notify();
        }
    }

    fn handle(&mut self, rank: usize, event: PeerEvent<Request>) {
        match event {
            PeerEvent::Message(Request::Heartbeat) => {}
            PeerEvent::Message(Request::Next { at_most }) => {
                // A dropped rank gets nothing.
                if self.clients.ranks().contains(&rank) {
                    self.wants.insert(rank, at_most.clamp(1, MAX_ITEMS));
                }
            }
            PeerEvent::Message(Request::Done { items }) => {
                let done = self.shared.state().items.done(rank, &items);
                self.shared.notify();
                // A rank that reports impossible items is dropped.
                if done.is_err() {
                    self.remove(rank);
                }
            }
            PeerEvent::Ended(_) => self.remove(rank),
            PeerEvent::Silent(reason) => {
                self.shared.state().lost.push(Error::lost(rank, reason.clone()));
                self.clients.send(|to| to == rank, &Reply::Expired { reason });
                self.remove(rank);
            }
        }
    }

    /// Answers pending requests, and notifies all ranks once all items are done.
    fn reply(&mut self) {
        let mut state = self.shared.state();
        if state.items.is_finished() {
            let informed = &self.informed;
            self.clients.send(|rank| !informed.contains(&rank), &Reply::Assigned(Assignment::Finished));
            self.informed.extend(self.clients.ranks());
            return;
        }
        let clients = &mut self.clients;
        self.wants.retain(|rank, at_most| match state.items.assign(*rank, *at_most) {
            Some(assignment) => {
                clients.send(|to| to == *rank, &Reply::Assigned(assignment));
                false
            }
            None => true,
        });
    }

    /// Returns the items of a lost rank to the list.
    fn remove(&mut self, rank: usize) {
        self.clients.remove(rank);
        self.wants.remove(&rank);
        self.shared.state().items.return_items(rank);
        // Closing does not wait for it. If it reconnects, it is informed.
        self.informed.insert(rank);
        self.shared.notify();
    }
}
