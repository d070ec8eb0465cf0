//! The thread that keeps a rank's control connections: heartbeats, goodbyes, and who is to blame.
//!
//! Rank 0 has one to every other rank and passes on what one of them says; the others have one to rank 0.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::header::Header;
use super::state::{Order, Shared};
use crate::net::{Channel, poll_until, remaining};

/// How long a rank that ends waits for its last words to be taken.
const GOODBYE: Duration = Duration::from_secs(2);

/// What ranks say on control connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Message {
    /// I live; this many collectives each rank has started, as far as I know, from `first` on.
    Beat { first: usize, started: Vec<u64> },
    /// The group has failed.
    Failed(Fault),
    /// My neighbour seems to be gone.
    Suspect(Fault),
    /// My neighbour does something else as this collective.
    Differ { sequence: u64, rank: usize, own: String, neighbour: usize, theirs: String },
    /// A rank has ended properly after so many collectives.
    Left { rank: usize, after: u64 },
}

/// A rank at the other end.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) rank: usize,
    pub(crate) channel: Channel,
}

/// When to send and when to give up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) heartbeat: Duration,
    pub(crate) silence: Duration,
}

struct Control {
    shared: Arc<Shared>,
    pace: Pace,
    peers: Vec<Watched>,
    /// Somebody seems to be gone; blamed when nobody else turns out to be by then.
    suspect: Option<(Fault, Instant)>,
}

struct Watched {
    peer: Peer,
    heard: Instant,
    /// It has ended, properly or not; nothing more is asked of it.
    gone: bool,
}

/// Keeps the connections until the group is left.
pub(crate) fn watch(peers: Vec<Peer>, shared: Arc<Shared>, pace: Pace) {
    let heard = Instant::now();
    let peers = peers.into_iter().map(|peer| Watched { peer, heard, gone: false }).collect();
    Control { shared, pace, peers, suspect: None }.run();
}

impl Control {
    fn run(&mut self) {
        let mut next_beat = Instant::now();
        let mut last_round = Instant::now();
        loop {
            let now = Instant::now();
            // This process itself stood still, be it stopped or its machine asleep: the others could not be heard.
            if now.duration_since(last_round) > self.pace.heartbeat + self.pace.silence / 2 {
                self.peers.iter_mut().for_each(|watched| watched.heard = now);
            }
            last_round = now;
            let orders = self.shared.take_orders();
            let leaves = orders.iter().any(|order| matches!(order, Order::Leave));
            orders.into_iter().for_each(|order| self.carry_out(order));
            if leaves {
                return self.leave();
            }
            if now >= next_beat {
                self.beat();
                next_beat = now + self.pace.heartbeat;
            }
            self.flush();
            self.find_silent(now);
            self.settle_suspicion(now);
            if self.peers.iter().all(|watched| watched.gone || watched.peer.channel.is_flushed()) {
                self.shared.note_quiet();
            }
            let until = self.suspect.as_ref().map_or(next_beat, |(_, until)| next_beat.min(*until));
            self.wait(until);
            self.hear();
        }
    }

    fn is_hub(&self) -> bool {
        self.shared.place.rank == 0
    }

    fn carry_out(&mut self, order: Order) {
        let rank = self.shared.place.rank;
        match order {
            Order::Raise(fault) => self.tell_all(&Message::Failed(fault)),
            Order::Suspect(fault) if self.is_hub() || self.peers.iter().all(|watched| watched.gone) => {
                self.suspect(fault);
            }
            Order::Suspect(fault) => self.tell_all(&Message::Suspect(fault)),
            Order::Differ { own, theirs } => {
                let neighbour = self.shared.place.previous();
                let sequence = own.sequence;
                let (own, theirs) = (own.to_string(), theirs.to_string());
                match self.is_hub() {
                    true => self.judge(sequence, rank, own, neighbour, theirs),
                    false => self.tell_all(&Message::Differ { sequence, rank, own, neighbour, theirs }),
                }
            }
            Order::Leave => {}
        }
    }

    /// The group has failed: this rank and everybody else is to know, unless something else is known already.
    fn fail(&mut self, fault: Fault) {
        if self.shared.fail(fault.clone()) && self.is_hub() {
            self.tell_all(&Message::Failed(fault));
        }
    }

    fn tell_all(&mut self, message: &Message) {
        for watched in self.peers.iter_mut().filter(|watched| !watched.gone) {
            // Too long a message is the only error, and faults are short.
            let _ = watched.peer.channel.queue(message);
        }
        self.flush();
    }

    fn beat(&mut self) {
        let started = self.shared.started();
        let own = self.shared.place.rank;
        let message = match self.is_hub() {
            true => Message::Beat { first: 0, started },
            false => Message::Beat { first: own, started: started.get(own).copied().into_iter().collect() },
        };
        for watched in self.peers.iter_mut().filter(|watched| !watched.gone) {
            // One that takes nothing is given no more: it will be found silent.
            if watched.peer.channel.is_flushed() {
                let _ = watched.peer.channel.queue(&message);
            }
        }
    }

    fn flush(&mut self) {
        for watched in self.peers.iter_mut().filter(|watched| !watched.gone) {
            // A broken connection is found when it is listened to, after what came before the break.
            let _ = watched.peer.channel.flush();
        }
    }

    fn find_silent(&mut self, now: Instant) {
        let silence = self.pace.silence;
        let is_silent = |watched: &&mut Watched| !watched.gone && now.duration_since(watched.heard) > silence;
        let silent: Vec<usize> = self.peers.iter_mut().filter(is_silent).map(|watched| watched.peer.rank).collect();
        for rank in silent {
            let reason = format!("nothing was heard of it for {} s", silence.as_secs_f64());
            self.fail(Fault::lost(rank, reason));
        }
    }

    fn suspect(&mut self, fault: Fault) {
        if let Some(after) = self.shared.left(fault.rank) {
            return self.fail(Fault::left(fault.rank, after));
        }
        self.suspect.get_or_insert((fault, Instant::now() + self.pace.heartbeat));
    }

    fn settle_suspicion(&mut self, now: Instant) {
        if self.suspect.as_ref().is_some_and(|(_, until)| now >= *until)
            && let Some((fault, _)) = self.suspect.take()
        {
            self.fail(fault);
        }
    }

    /// Two neighbours do different things: the one that differs from rank 0 is out of step.
    fn judge(&mut self, sequence: u64, rank: usize, own: String, neighbour: usize, theirs: String) {
        let ours = self.shared.begun(sequence).map(|header: Header| header.to_string());
        let (rank, what, other, others) = match ours {
            Some(ours) if ours == theirs => (rank, own, 0, ours),
            Some(ours) => (neighbour, theirs, 0, ours),
            None => (neighbour, theirs, rank, own),
        };
        let reason = format!("as collective {} it started {what}, and rank {other} {others}", sequence + 1);
        self.fail(Fault::out_of_step(rank, reason));
    }

    fn wait(&self, until: Instant) {
        let mut sockets = vec![self.shared.control_waker().socket()];
        sockets.extend(self.peers.iter().filter(|watched| !watched.gone).map(|watched| watched.peer.channel.socket()));
        if poll_until(&sockets, until).is_err() {
            // Only where memory is short: try again soon.
            std::thread::sleep(Duration::from_millis(10).min(remaining(until)));
        }
        self.shared.control_waker().clear();
    }

    fn hear(&mut self) {
        for index in 0..self.peers.len() {
            let Some(watched) = self.peers.get_mut(index).filter(|watched| !watched.gone) else { continue };
            let rank = watched.peer.rank;
            let heard = watched.peer.channel.receive::<Message>();
            let messages = match heard {
                Ok(messages) => messages,
                Err(error) => {
                    watched.gone = true;
                    self.fail(Fault::lost(rank, broken(&error)));
                    continue;
                }
            };
            let ended = watched.peer.channel.has_ended();
            if !messages.is_empty() {
                watched.heard = Instant::now();
            }
            let said_goodbye =
                messages.iter().any(|said| matches!(said, Message::Left { rank: who, .. } if *who == rank));
            messages.into_iter().for_each(|message| self.take_in(rank, message));
            let Some(watched) = self.peers.get_mut(index) else { continue };
            if said_goodbye {
                // Closed from this side too, so that it need not wait.
                watched.peer.channel.close_sending();
                watched.gone = true;
            } else if ended {
                watched.gone = true;
                self.fail(Fault::lost(rank, "its connection closed without a goodbye: its process has ended"));
            }
        }
    }

    fn take_in(&mut self, from: usize, message: Message) {
        match message {
            Message::Beat { first, started } => {
                for (offset, count) in started.into_iter().enumerate() {
                    self.shared.note_started(first + offset, count);
                }
            }
            Message::Failed(fault) => self.fail(fault),
            Message::Suspect(fault) => self.suspect(fault),
            Message::Differ { sequence, rank, own, neighbour, theirs } => {
                self.judge(sequence, rank, own, neighbour, theirs);
            }
            Message::Left { rank, after } => {
                self.shared.note_left(rank, after);
                if self.is_hub() {
                    let message = Message::Left { rank, after };
                    for watched in self.peers.iter_mut().filter(|watched| !watched.gone && watched.peer.rank != from) {
                        let _ = watched.peer.channel.queue(&message);
                    }
                }
            }
        }
    }

    /// Says goodbye, and listens until the others have closed: what they still say must not break the connection.
    fn leave(&mut self) {
        let deadline = Instant::now() + GOODBYE;
        let rank = self.shared.place.rank;
        let after = self.shared.started().get(rank).copied().unwrap_or(0);
        self.tell_all(&Message::Left { rank, after });
        let mut closed = vec![false; self.peers.len()];
        while !remaining(deadline).is_zero() && self.peers.iter().any(|watched| !watched.gone) {
            for (watched, closed) in self.peers.iter_mut().zip(&mut closed).filter(|(watched, _)| !watched.gone) {
                let channel = &mut watched.peer.channel;
                if channel.flush().is_err() || channel.receive::<Message>().is_err() || channel.has_ended() {
                    watched.gone = true;
                } else if channel.is_flushed() && !*closed {
                    channel.close_sending();
                    *closed = true;
                }
            }
            if self.peers.iter().any(|watched| !watched.gone) {
                self.wait(deadline);
            }
        }
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
