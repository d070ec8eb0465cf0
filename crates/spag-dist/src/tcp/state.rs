//! State shared by a group's threads: started collectives, ranks that left, and the first failure.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::header::Header;
use super::schedule::RingPosition;
use crate::hosts::{Scope, ScopeTraffic};
use crate::net::Waker;
use crate::{Error, Result, Traffic};

/// Number of collectives remembered for [`GroupState::begun`].
const MAX_BEGUN: usize = 16;

/// A command for the control thread.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Tell all ranks that the group has failed.
    Fail(Error),
    /// Report a neighbour that seems to be lost; rank 0 decides which rank failed first.
    ReportSuspect(Error),
    /// Report that the previous rank of a ring runs another collective.
    ReportMismatch { own: Header, neighbour: usize, theirs: Header },
    /// This rank leaves the group.
    Leave,
}

/// Shared by the callers, the thread that runs collectives, and the control thread.
#[derive(Debug)]
pub(crate) struct GroupState {
    /// Among all ranks.
    pub(crate) position: RingPosition,
    state: Mutex<State>,
    changed: Condvar,
    failed: AtomicBool,
    /// Wakes the thread that runs collectives.
    pub(crate) ring_waker: Waker,
    pub(crate) control_waker: Waker,
}

#[derive(Debug)]
struct State {
    failure: Option<Error>,
    /// Number of collectives started by each rank, as far as this rank knows.
    started: Vec<u64>,
    /// For each rank that has left, the number of collectives that it had started.
    left: Vec<Option<u64>>,
    commands: Vec<Command>,
    /// All commands are executed and their messages are sent.
    idle: bool,
    /// The latest collectives that this rank has begun to run, newest first.
    begun: VecDeque<Header>,
    traffic: ScopeTraffic,
}

impl GroupState {
    pub(crate) fn new(position: RingPosition) -> Result<Self> {
        let waker = || Waker::new().map_err(Error::system("a pair of sockets"));
        Ok(Self {
            position,
            state: Mutex::new(State {
                failure: None,
                started: vec![0; position.size],
                left: vec![None; position.size],
                commands: Vec::new(),
                idle: true,
                begun: VecDeque::new(),
                traffic: ScopeTraffic::default(),
            }),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
            ring_waker: waker()?,
            control_waker: waker()?,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is a single assignment, so a panic leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The first failure.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.state().failure.clone()
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Records the failure unless there is an earlier one. Returns whether it is the first.
    pub(crate) fn fail(&self, error: Error) -> bool {
        let is_first = {
            let mut state = self.state();
            let is_first = state.failure.is_none();
            state.failure.get_or_insert(error);
            self.failed.store(true, Ordering::Release);
            is_first
        };
        self.changed.notify_all();
        self.ring_waker.wake();
        is_first
    }

    /// [`GroupState::fail`] on all ranks.
    pub(crate) fn fail_all(&self, error: Error) {
        if self.fail(error.clone()) {
            self.command(Command::Fail(error));
        }
    }

    /// Waits until the group has failed; `None` after the timeout.
    pub(crate) fn wait_for_failure(&self, timeout: Duration) -> Option<Error> {
        self.wait(timeout, |state| state.failure.is_some()).failure.clone()
    }

    fn wait(&self, timeout: Duration, done: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let result = self.changed.wait_timeout_while(self.state(), timeout, |state| !done(state));
        result.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Calls `enqueue` with the sequence number of this rank's next collective, under the lock that orders
    /// collectives.
    ///
    /// # Errors
    /// The group has failed, or a rank has left it.
    pub(crate) fn start(&self, enqueue: impl FnOnce(u64) -> Result<()>) -> Result<()> {
        let mut state = self.state();
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        let own = self.position.rank;
        let sequence = state.started[own];
        let left = |(rank, after): (usize, &Option<u64>)| after.filter(|after| *after <= sequence).map(|n| (rank, n));
        if let Some((rank, after)) = state.left.iter().enumerate().find_map(left) {
            drop(state);
            let error = Error::left(rank, after);
            self.fail_all(error.clone());
            return Err(error);
        }
        enqueue(sequence)?;
        state.started[own] += 1;
        Ok(())
    }

    pub(crate) fn record_begun(&self, header: Header) {
        let mut state = self.state();
        state.begun.truncate(MAX_BEGUN - 1);
        state.begun.push_front(header);
    }

    /// The collective with this sequence number, if this rank has begun it recently.
    pub(crate) fn begun(&self, sequence: u64) -> Option<Header> {
        self.state().begun.iter().find(|header| header.sequence == sequence).copied()
    }

    pub(crate) fn started(&self) -> Vec<u64> {
        self.state().started.clone()
    }

    /// Records the number of collectives started by another rank.
    pub(crate) fn record_started(&self, rank: usize, count: u64) {
        if rank != self.position.rank
            && let Some(started) = self.state().started.get_mut(rank)
        {
            *started = count.max(*started);
        }
    }

    /// Records that a rank has left. Fails the group if this rank has started more collectives.
    pub(crate) fn record_left(&self, rank: usize, after: u64) {
        let needs_more = {
            let mut state = self.state();
            if let Some(left) = state.left.get_mut(rank) {
                *left = Some(after);
            }
            state.started[self.position.rank] > after
        };
        if needs_more {
            self.fail_all(Error::left(rank, after));
        }
    }

    /// The number of collectives that a rank had started when it left.
    pub(crate) fn left(&self, rank: usize) -> Option<u64> {
        self.state().left.get(rank).copied().flatten()
    }

    pub(crate) fn command(&self, command: Command) {
        {
            let mut state = self.state();
            state.commands.push(command);
            state.idle = false;
        }
        self.control_waker.wake();
    }

    pub(crate) fn take_commands(&self) -> Vec<Command> {
        std::mem::take(&mut self.state().commands)
    }

    /// The control thread has sent all messages.
    pub(crate) fn record_flushed(&self) {
        let mut state = self.state();
        if state.commands.is_empty() && !state.idle {
            state.idle = true;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits until all commands are executed and their messages sent, or the timeout.
    pub(crate) fn wait_until_idle(&self, timeout: Duration) {
        drop(self.wait(timeout, |state| state.idle));
    }

    pub(crate) fn add_traffic(&self, scope: Scope, moved: Traffic) {
        self.state().traffic.add(scope, moved);
    }

    /// The traffic of a scope; the ring of all ranks has that of all.
    pub(crate) fn traffic(&self, scope: Scope) -> Traffic {
        self.state().traffic.of(scope)
    }
}
