//! The thread that keeps a rank's control connections: heartbeats, leaving, and which rank failed first.
//!
//! Rank 0 has a connection to every other rank and forwards their messages; the others have one to rank 0.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::header::Header;
use super::state::{Command, GroupState};
use crate::Error;
use crate::net::{Channel, poll_until, remaining};

/// How long a rank that leaves waits for its last messages to be received.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

/// How often rank 0 looks whether it has begun a collective that others disagree on.
const MISMATCH_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Message {
    /// How many collectives ranks have started, as far as the sender knows, from rank `first` on.
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

/// The control connection to another rank.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) rank: usize,
    pub(crate) channel: Channel,
    last_message: Instant,
    /// It has left or is lost.
    gone: bool,
}

impl Peer {
    pub(crate) fn new(rank: usize, channel: Channel) -> Self {
        Self { rank, channel, last_message: Instant::now(), gone: false }
    }
}

pub(crate) struct Control {
    pub(crate) state: Arc<GroupState>,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) heartbeat_timeout: Duration,
    /// Rank 0: all other ranks. The others: rank 0.
    pub(crate) peers: Vec<Peer>,
    /// A rank that seems to be lost. It fails the group at this time, unless another failure is reported before.
    pub(crate) suspect: Option<(Error, Instant)>,
    /// Rank 0: ranks that run different collectives, until this rank has begun that collective too and can tell which
    /// of them is out of step, or this time.
    pub(crate) mismatch: Option<(Mismatch, Instant)>,
}

impl Control {
    /// Keeps the connections until this rank leaves.
    pub(crate) fn run(mut self) {
        let mut next_heartbeat = Instant::now();
        let mut last_round = Instant::now();
        loop {
            let now = Instant::now();
            // This process was stopped, or its machine asleep, so it could not receive heartbeats.
            if now.duration_since(last_round) > self.heartbeat_interval + self.heartbeat_timeout / 2 {
                self.peers.iter_mut().for_each(|peer| peer.last_message = now);
            }
            last_round = now;
            let commands = self.state.take_commands();
            let leaves = commands.iter().any(|command| matches!(command, Command::Leave));
            commands.into_iter().for_each(|command| self.execute(command));
            if leaves {
                return self.leave();
            }
            if now >= next_heartbeat {
                self.send_heartbeats();
                next_heartbeat = now + self.heartbeat_interval;
            }
            self.flush();
            self.find_silent(now);
            if self.suspect.as_ref().is_some_and(|(_, until)| now >= *until)
                && let Some((error, _)) = self.suspect.take()
            {
                self.fail(error);
            }
            self.settle_mismatch(now);
            if self.peers.iter().all(|peer| peer.gone || peer.channel.is_flushed()) {
                self.state.record_flushed();
            }
            let suspect = self.suspect.as_ref().map(|(_, until)| *until);
            let mismatch = self.mismatch.as_ref().map(|_| now + MISMATCH_INTERVAL);
            self.wait([suspect, mismatch].into_iter().flatten().fold(next_heartbeat, Instant::min));
            self.receive();
        }
    }

    fn is_rank0(&self) -> bool {
        self.state.position.rank == 0
    }

    fn connected(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.peers.iter_mut().filter(|peer| !peer.gone)
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Fail(error) => self.send_all(&Message::Failed(error)),
            Command::ReportSuspect(error) if self.is_rank0() || self.peers.iter().all(|peer| peer.gone) => {
                self.suspect(error);
            }
            Command::ReportSuspect(error) => self.send_all(&Message::Suspect(error)),
            Command::ReportMismatch { own, theirs } => {
                let (rank, neighbour) = (self.state.position.rank, self.state.position.previous());
                let (sequence, own, theirs) = (own.sequence, own.to_string(), theirs.to_string());
                let message = Message::Mismatch(Mismatch { sequence, rank, own, neighbour, theirs });
                if self.is_rank0() { self.handle(0, message) } else { self.send_all(&message) }
            }
            Command::Leave => {}
        }
    }

    /// Records the failure; rank 0 also tells the others, unless they know an earlier one.
    fn fail(&mut self, error: Error) {
        if self.state.fail(error.clone()) && self.is_rank0() {
            self.send_all(&Message::Failed(error));
        }
    }

    fn send_all(&mut self, message: &Message) {
        for peer in self.connected() {
            // Fails only for messages that are too long, and these are short.
            let _ = peer.channel.queue(message);
        }
        self.flush();
    }

    fn send_heartbeats(&mut self) {
        let (first, mut started) = (self.state.position.rank, self.state.started());
        if !self.is_rank0() {
            started = started.get(first).copied().into_iter().collect();
        }
        let message = Message::Heartbeat { first, started };
        // Skips a peer that does not read: it will be found silent.
        for peer in self.connected().filter(|peer| peer.channel.is_flushed()) {
            let _ = peer.channel.queue(&message);
        }
    }

    fn flush(&mut self) {
        for peer in self.connected() {
            // `receive` finds broken connections, after it has read what arrived before the break.
            let _ = peer.channel.flush();
        }
    }

    fn find_silent(&mut self, now: Instant) {
        let timeout = self.heartbeat_timeout;
        let silent = self.connected().filter(|peer| now.duration_since(peer.last_message) > timeout);
        for rank in silent.map(|peer| peer.rank).collect::<Vec<_>>() {
            self.fail(Error::lost(rank, format!("no heartbeat for {} s", timeout.as_secs_f64())));
        }
    }

    /// Rank 0: a rank seems to be lost. Waits for one heartbeat, since an earlier failure may explain it.
    fn suspect(&mut self, error: Error) {
        if let Error::Lost { rank, .. } = error
            && let Some(after) = self.state.left(rank)
        {
            return self.fail(Error::left(rank, after));
        }
        self.suspect.get_or_insert((error, Instant::now() + self.heartbeat_interval));
    }

    /// Names the rank that differs from rank 0. While rank 0 has not begun the collective, neither rank is known to be
    /// the one.
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

    fn wait(&self, until: Instant) {
        let mut sockets = vec![self.state.control_waker.socket()];
        sockets.extend(self.peers.iter().filter(|peer| !peer.gone).map(|peer| peer.channel.socket()));
        if poll_until(&sockets, until).is_err() {
            // Out of memory: retry soon.
            std::thread::sleep(Duration::from_millis(10).min(remaining(until)));
        }
        self.state.control_waker.clear();
    }

    fn receive(&mut self) {
        for index in 0..self.peers.len() {
            let Some(peer) = self.peers.get_mut(index).filter(|peer| !peer.gone) else { continue };
            let rank = peer.rank;
            let messages = match peer.channel.receive::<Message>() {
                Ok(messages) => messages,
                Err(error) => {
                    peer.gone = true;
                    self.fail(Error::lost(rank, broken(&error)));
                    continue;
                }
            };
            let ended = peer.channel.has_ended();
            if !messages.is_empty() {
                peer.last_message = Instant::now();
            }
            let left =
                messages.iter().any(|message| matches!(message, Message::Left { rank: who, .. } if *who == rank));
            messages.into_iter().for_each(|message| self.handle(rank, message));
            let Some(peer) = self.peers.get_mut(index) else { continue };
            if left {
                // Closed on this side too, so that the peer does not wait.
                peer.channel.close_sending();
                peer.gone = true;
            } else if ended {
                peer.gone = true;
                self.fail(Error::lost(rank, "its connection closed: its process has ended"));
            }
        }
    }

    fn handle(&mut self, from: usize, message: Message) {
        match message {
            Message::Heartbeat { first, started } => {
                for (offset, count) in started.into_iter().enumerate() {
                    self.state.record_started(first.saturating_add(offset), count);
                }
            }
            Message::Failed(error) => self.fail(error),
            Message::Suspect(error) => self.suspect(error),
            Message::Mismatch(mismatch) => {
                self.mismatch.get_or_insert((mismatch, Instant::now() + self.heartbeat_timeout / 2));
            }
            Message::Left { rank, after } => {
                self.state.record_left(rank, after);
                if self.is_rank0() {
                    let message = Message::Left { rank, after };
                    for peer in self.connected().filter(|peer| peer.rank != from) {
                        let _ = peer.channel.queue(&message);
                    }
                }
            }
        }
    }

    fn leave(mut self) {
        let rank = self.state.position.rank;
        let after = self.state.started().get(rank).copied().unwrap_or(0);
        self.send_all(&Message::Left { rank, after });
        Channel::close_all(self.connected().map(|peer| &mut peer.channel), Instant::now() + LEAVE_TIMEOUT);
    }
}

fn broken(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "its connection broke: its process or its machine has ended".into()
        }
        _ => format!("its connection: {error}"),
    }
}
