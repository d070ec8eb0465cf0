//! What a group's threads know together: what has been started, who has left, and what has gone wrong.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::fault::Fault;
use super::header::Header;
use super::schedule::Place;
use crate::net::{Waker, remaining};
use crate::{Error, Result, Traffic};

/// How many of the last collectives are remembered, to say what this rank did when others fall out of step.
const REMEMBERED: usize = 16;

/// What the thread of the control connection is asked to do.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// Tell everybody; the group has failed here.
    Raise(Fault),
    /// A neighbour seems to be gone; find out where it began.
    Suspect(Fault),
    /// The previous rank does something else than this one.
    Differ {
        /// What this rank does.
        own: Header,
        /// What the previous rank does.
        theirs: Header,
    },
    /// This rank ends.
    Leave,
}

/// Shared by the caller, the thread of the ring (the conductor) and that of the control connection.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) place: Place,
    state: Mutex<State>,
    changed: Condvar,
    failed: AtomicBool,
    sent: AtomicU64,
    received: AtomicU64,
    conductor_waker: Waker,
    control_waker: Waker,
}

#[derive(Debug)]
struct State {
    fault: Option<Fault>,
    /// How many collectives each rank has started, as far as known here.
    started: Vec<u64>,
    /// After how many collectives a rank has ended properly.
    left: Vec<Option<u64>>,
    orders: Vec<Order>,
    /// All orders have been carried out and all that was to be sent is sent.
    quiet: bool,
    /// The last collectives that the conductor has begun.
    begun: VecDeque<Header>,
}

impl Shared {
    /// # Errors
    /// Where the system has no sockets left.
    pub(crate) fn new(place: Place) -> Result<Self> {
        let waker =
            || Waker::new().map_err(|error| Error::System { what: "a pair of sockets", reason: error.to_string() });
        Ok(Self {
            place,
            state: Mutex::new(State {
                fault: None,
                started: vec![0; place.size],
                left: vec![None; place.size],
                orders: Vec::new(),
                quiet: true,
                begun: VecDeque::new(),
            }),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            conductor_waker: waker()?,
            control_waker: waker()?,
        })
    }

    /// A thread that panicked has left nothing half-done in here: every change is a single assignment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn conductor_waker(&self) -> &Waker {
        &self.conductor_waker
    }

    pub(crate) fn control_waker(&self) -> &Waker {
        &self.control_waker
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        self.state().fault.clone()
    }

    /// The group has failed; the first reason stays. Says whether this is it.
    pub(crate) fn fail(&self, fault: Fault) -> bool {
        let is_first = {
            let mut state = self.state();
            let is_first = state.fault.is_none();
            state.fault.get_or_insert(fault);
            self.failed.store(true, Ordering::Release);
            is_first
        };
        self.changed.notify_all();
        self.conductor_waker.wake();
        is_first
    }

    /// Waits until the group has failed; `None` if it has not by then.
    pub(crate) fn wait_for_fault(&self, patience: Duration) -> Option<Fault> {
        self.wait(patience, |state| state.fault.is_some()).fault.clone()
    }

    fn wait(&self, patience: Duration, done: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let deadline = Instant::now() + patience;
        let waiting = |state: &mut State| !done(state);
        let (state, _) = self
            .changed
            .wait_timeout_while(self.state(), remaining(deadline), waiting)
            .unwrap_or_else(PoisonError::into_inner);
        state
    }

    /// Takes the next number for a collective of this rank, and calls `queue` with it before any other is taken.
    ///
    /// # Errors
    /// A group that has failed, or that a rank has left.
    pub(crate) fn begin(&self, queue: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        let mut state = self.state();
        if let Some(fault) = &state.fault {
            return Err(fault.clone().into());
        }
        let own = self.place.rank;
        let sequence = state.started[own];
        if let Some(fault) = missing(&state.left, sequence + 1) {
            drop(state);
            self.raise(fault.clone());
            return Err(fault.into());
        }
        queue(sequence)?;
        state.started[own] += 1;
        Ok(())
    }

    /// The conductor begins a collective.
    pub(crate) fn note_begun(&self, header: Header) {
        let mut state = self.state();
        state.begun.truncate(REMEMBERED - 1);
        state.begun.push_front(header);
    }

    /// What this rank does as a certain collective, as far as it has begun it.
    pub(crate) fn begun(&self, sequence: u64) -> Option<Header> {
        self.state().begun.iter().find(|header| header.sequence == sequence).copied()
    }

    pub(crate) fn started(&self) -> Vec<u64> {
        self.state().started.clone()
    }

    /// A rank has told how many collectives it has started.
    pub(crate) fn note_started(&self, rank: usize, count: u64) {
        if rank != self.place.rank
            && let Some(started) = self.state().started.get_mut(rank)
        {
            *started = count.max(*started);
        }
    }

    /// A rank has ended properly. Fails the group where this rank is waiting for more.
    pub(crate) fn note_left(&self, rank: usize, after: u64) {
        let needs_more = {
            let mut state = self.state();
            if let Some(left) = state.left.get_mut(rank) {
                *left = Some(after);
            }
            state.started[self.place.rank] > after
        };
        if needs_more {
            self.raise(Fault::left(rank, after));
        }
    }

    /// After how many collectives a rank has ended properly.
    pub(crate) fn left(&self, rank: usize) -> Option<u64> {
        self.state().left.get(rank).copied().flatten()
    }

    /// The group has failed here: remembers it and has everybody told.
    pub(crate) fn raise(&self, fault: Fault) {
        if self.fail(fault.clone()) {
            self.order(Order::Raise(fault));
        }
    }

    pub(crate) fn order(&self, order: Order) {
        {
            let mut state = self.state();
            state.orders.push(order);
            state.quiet = false;
        }
        self.control_waker.wake();
    }

    pub(crate) fn take_orders(&self) -> Vec<Order> {
        std::mem::take(&mut self.state().orders)
    }

    /// The control thread has sent all there was to send.
    pub(crate) fn note_quiet(&self) {
        let mut state = self.state();
        if state.orders.is_empty() && !state.quiet {
            state.quiet = true;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits until all orders are carried out, but not for ever.
    pub(crate) fn wait_for_quiet(&self, patience: Duration) {
        drop(self.wait(patience, |state| state.quiet));
    }

    pub(crate) fn count(&self, moved: Traffic) {
        self.sent.fetch_add(moved.sent, Ordering::Relaxed);
        self.received.fetch_add(moved.received, Ordering::Relaxed);
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic { sent: self.sent.load(Ordering::Relaxed), received: self.received.load(Ordering::Relaxed) }
    }
}

/// The first rank that ended after fewer than `needed` collectives.
fn missing(left: &[Option<u64>], needed: u64) -> Option<Fault> {
    let mut gone = left.iter().enumerate().filter_map(|(rank, left)| left.map(|after| (rank, after)));
    gone.find(|(_, after)| *after < needed).map(|(rank, after)| Fault::left(rank, after))
}
