//! The control thread of a rank: heartbeats, leaving, and deciding which rank failed first.
//!
//! Rank 0 has a connection to every other rank and forwards their messages; the others have one to rank 0.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::header::Header;
use super::state::{Command, GroupState};
use crate::Error;
use crate::net::{PeerEvent, Peers};

/// Time that a leaving rank waits for its last messages to be received.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval at which rank 0 checks whether it has begun a collective that other ranks disagree on.
const MISMATCH_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Message {
    /// The number of collectives started by ranks `first` and up, as far as the sender knows.
    Heartbeat { first: usize, started: Vec<u64> },
    /// The group has failed.
    Failed(Error),
    /// A neighbour of the sender seems to be lost.
    Suspect(Error),
    /// Two ranks run different collectives.
    Mismatch(Mismatch),
    /// A rank has left the group after this many collectives.
    Left { rank: usize, after: u64 },
}

/// As collective `sequence`, `rank` runs `own` and its `neighbour` runs `theirs`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mismatch {
    sequence: u64,
    rank: usize,
    own: String,
    neighbour: usize,
    theirs: String,
}

pub(crate) struct Control {
    pub(crate) state: Arc<GroupState>,
    /// Rank 0: all other ranks. The others: rank 0.
    pub(crate) peers: Peers,
    /// A rank that seems to be lost. It fails the group at this time, unless another failure is reported first.
    pub(crate) suspect: Option<(Error, Instant)>,
    /// Rank 0: a mismatch between two ranks, kept until this rank has begun that collective too and can tell which of
    /// them is out of step, or until this time.
    pub(crate) mismatch: Option<(Mismatch, Instant)>,
}

impl Control {
    /// Keeps the connections until this rank leaves.
    pub(crate) fn run(mut self) {
        loop {
            let commands = self.state.take_commands();
            let leaves = commands.iter().any(|command| matches!(command, Command::Leave));
            commands.into_iter().for_each(|command| self.execute(command));
            if leaves {
                return self.leave();
            }
            let now = Instant::now();
            if let Some((error, _)) = self.suspect.take_if(|(_, until)| now >= *until) {
                self.fail(error);
            }
            self.settle_mismatch(now);
            if self.peers.are_flushed() {
                self.state.record_flushed();
            }
            let suspect = self.suspect.as_ref().map(|(_, until)| *until);
            let mismatch = self.mismatch.as_ref().map(|_| now + MISMATCH_INTERVAL);
            let until = [suspect, mismatch].into_iter().flatten().fold(now + self.peers.interval, Instant::min);
            let heartbeat = self.heartbeat();
            for (rank, event) in self.peers.round(&heartbeat, &[&self.state.control_waker], until) {
                self.handle(rank, event);
            }
        }
    }

    fn is_rank0(&self) -> bool {
        self.state.position.rank == 0
    }

    fn heartbeat(&self) -> Message {
        let (first, started) = (self.state.position.rank, self.state.started());
        let started = if self.is_rank0() { started } else { started.get(first).copied().into_iter().collect() };
        Message::Heartbeat { first, started }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Fail(error) => self.peers.send(|_| true, &Message::Failed(error)),
            Command::ReportSuspect(error) if self.is_rank0() || self.peers.ranks().is_empty() => self.suspect(error),
            Command::ReportSuspect(error) => self.peers.send(|_| true, &Message::Suspect(error)),
            Command::ReportMismatch { own, neighbour, theirs } => {
                let rank = self.state.position.rank;
                let (sequence, own, theirs) = (own.sequence, own.to_string(), theirs.to_string());
                let mismatch = Mismatch { sequence, rank, own, neighbour, theirs };
                match self.is_rank0() {
                    true => self.record_mismatch(mismatch),
                    false => self.peers.send(|_| true, &Message::Mismatch(mismatch)),
                }
            }
            Command::Leave => {}
        }
    }

    /// Records the failure; rank 0 also tells the others, unless they know an earlier one.
    fn fail(&mut self, error: Error) {
        if self.state.fail(error.clone()) && self.is_rank0() {
            self.peers.send(|_| true, &Message::Failed(error));
        }
    }

    /// Rank 0: handles a rank that seems to be lost. Waits for one heartbeat, since an earlier failure may explain
    /// it.
    fn suspect(&mut self, error: Error) {
        if let Error::Lost { rank, .. } = error
            && let Some(after) = self.state.left(rank)
        {
            return self.fail(Error::left(rank, after));
        }
        self.suspect.get_or_insert((error, Instant::now() + self.peers.interval));
    }

    /// Names the rank that differs from rank 0. Undecided while rank 0 has not begun the collective.
    fn settle_mismatch(&mut self, now: Instant) {
        let Some((mismatch, until)) = &self.mismatch else { return };
        let ours = self.state.begun(mismatch.sequence).map(|header: Header| header.to_string());
        if ours.is_none() && now < *until {
            return;
        }
        let Some((Mismatch { sequence, rank, own, neighbour, theirs }, _)) = self.mismatch.take() else { return };
        let (rank, what, other, others) = match ours {
            Some(ours) if ours == theirs => (rank, own, 0, ours),
            Some(ours) => (neighbour, theirs, 0, ours),
            None => (neighbour, theirs, rank, own),
        };
        let reason =
            format!("as collective {} it started {what}, and rank {other} {others}", sequence.saturating_add(1));
        self.fail(Error::OutOfStep { rank, reason });
    }

    fn record_mismatch(&mut self, mismatch: Mismatch) {
        self.mismatch.get_or_insert((mismatch, Instant::now() + self.peers.timeout / 2));
    }

    fn handle(&mut self, from: usize, event: PeerEvent<Message>) {
        match event {
            PeerEvent::Message(Message::Heartbeat { first, started }) => {
                for (offset, count) in started.into_iter().enumerate() {
                    self.state.record_started(first.saturating_add(offset), count);
                }
            }
            PeerEvent::Message(Message::Failed(error)) => self.fail(error),
            PeerEvent::Message(Message::Suspect(error)) => self.suspect(error),
            PeerEvent::Message(Message::Mismatch(mismatch)) => self.record_mismatch(mismatch),
            PeerEvent::Message(Message::Left { rank, after }) => {
                self.state.record_left(rank, after);
                if rank == from {
                    // Closed on this side too, so that the peer does not wait.
                    self.peers.remove(rank);
                }
                if self.is_rank0() {
                    self.peers.send(|to| to != from, &Message::Left { rank, after });
                }
            }
            PeerEvent::Ended(_) if self.state.left(from).is_some() => {}
            PeerEvent::Ended(reason) | PeerEvent::Silent(reason) => self.fail(Error::lost(from, reason)),
        }
    }

    fn leave(mut self) {
        let rank = self.state.position.rank;
        let after = self.state.started().get(rank).copied().unwrap_or(0);
        self.peers.send(|_| true, &Message::Left { rank, after });
        self.peers.close(LEAVE_TIMEOUT);
    }
}
