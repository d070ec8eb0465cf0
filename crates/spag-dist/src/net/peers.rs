//! Connections between ranks, kept alive by heartbeats.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Channel, JoinOptions, Waker, poll_until, remaining};
use crate::Error;

/// The connections of a thread, at most one per rank.
#[derive(Debug)]
pub(crate) struct Peers {
    list: Vec<Peer>,
    /// The time between heartbeats.
    pub(crate) interval: Duration,
    /// A peer that sends nothing for this long is silent.
    pub(crate) timeout: Duration,
    next_heartbeat: Instant,
    last_round: Instant,
}

#[derive(Debug)]
struct Peer {
    rank: usize,
    channel: Channel,
    last_message: Instant,
}

/// An event on a connection.
pub(crate) enum PeerEvent<M> {
    /// A message.
    Message(M),
    /// The connection has ended, for this reason. The peer is removed.
    Ended(String),
    /// No message has arrived within the timeout. Reported once per timeout.
    Silent(String),
}

impl Peers {
    pub(crate) fn new(options: &JoinOptions) -> Self {
        let (interval, timeout, now) = (options.heartbeat_interval, options.heartbeat_timeout, Instant::now());
        Self { list: Vec::new(), interval, timeout, next_heartbeat: now, last_round: now }
    }

    /// Adds the connection to a rank.
    pub(crate) fn add(&mut self, rank: usize, channel: Channel) {
        self.list.push(Peer { rank, channel, last_message: Instant::now() });
    }

    /// The connected ranks.
    pub(crate) fn ranks(&self) -> Vec<usize> {
        self.list.iter().map(|peer| peer.rank).collect()
    }

    /// Whether a rank is connected and the connection is open.
    pub(crate) fn is_open(&mut self, rank: usize) -> bool {
        self.list.iter_mut().any(|peer| peer.rank == rank && peer.channel.is_open())
    }

    /// Whether all queued data is sent.
    pub(crate) fn are_flushed(&self) -> bool {
        self.list.iter().all(|peer| peer.channel.is_flushed())
    }

    /// Sends a message to the ranks that `to` selects, now or in later rounds.
    pub(crate) fn send(&mut self, to: impl Fn(usize) -> bool, message: &impl Serialize) {
        for peer in self.list.iter_mut().filter(|peer| to(peer.rank)) {
            // Fails only for messages that are too long; these are short.
            let _ = peer.channel.queue(message);
            // A round detects broken connections after reading the data that arrived before the break.
            let _ = peer.channel.flush();
        }
    }

    /// Removes a rank, after sending as much as possible without blocking.
    pub(crate) fn remove(&mut self, rank: usize) {
        self.list.retain(|peer| {
            if peer.rank == rank {
                peer.channel.close_sending();
            }
            peer.rank != rank
        });
    }

    /// Waits for a message, a waker, the next heartbeat or `until`. Sends heartbeats when due, and returns the events by
    /// rank.
    pub(crate) fn round<M: DeserializeOwned>(
        &mut self,
        heartbeat: &impl Serialize,
        wakers: &[&Waker],
        until: Instant,
    ) -> Vec<(usize, PeerEvent<M>)> {
        let now = Instant::now();
        // This process was suspended or its machine asleep, so it could not receive heartbeats.
        if now.duration_since(self.last_round) > self.interval + self.timeout / 2 {
            self.list.iter_mut().for_each(|peer| peer.last_message = now);
        }
        self.last_round = now;
        if now >= self.next_heartbeat {
            // Skips a peer that does not read: it will be reported as silent.
            for peer in self.list.iter_mut().filter(|peer| peer.channel.is_flushed()) {
                let _ = peer.channel.queue(heartbeat);
                let _ = peer.channel.flush();
            }
            self.next_heartbeat = now + self.interval;
        }
        let until = until.min(self.next_heartbeat);
        let sockets = wakers.iter().map(|waker| waker.socket());
        let sockets: Vec<_> = sockets.chain(self.list.iter().map(|peer| peer.channel.socket())).collect();
        if poll_until(&sockets, until).is_err() {
            // Out of memory: retry soon.
            std::thread::sleep(Duration::from_millis(10).min(remaining(until)));
        }
        wakers.iter().for_each(|waker| waker.clear());
        self.receive(Instant::now())
    }

    fn receive<M: DeserializeOwned>(&mut self, now: Instant) -> Vec<(usize, PeerEvent<M>)> {
        let (mut events, timeout) = (Vec::new(), self.timeout);
        self.list.retain_mut(|peer| {
            let _ = peer.channel.flush();
            let (messages, end) = match peer.channel.receive::<M>() {
                Ok(messages) => (messages, peer.channel.has_ended().then(|| ErrorKind::UnexpectedEof.into())),
                Err(error) => (Vec::new(), Some(error)),
            };
            if !messages.is_empty() {
                peer.last_message = now;
            }
            events.extend(messages.into_iter().map(|message| (peer.rank, PeerEvent::Message(message))));
            if let Some(error) = &end {
                events.push((peer.rank, PeerEvent::Ended(ending(error))));
            } else if now.duration_since(peer.last_message) > timeout {
                peer.last_message = now;
                let reason = format!("no heartbeat for {} s", timeout.as_secs_f64());
                events.push((peer.rank, PeerEvent::Silent(reason)));
            }
            end.is_none()
        });
        events
    }

    /// Sends queued data, and closes each connection when its peer has closed it too or after `timeout`: closing a
    /// connection with unread data would discard what was sent.
    pub(crate) fn close(&mut self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        while !remaining(deadline).is_zero() {
            self.list.retain_mut(|peer| peer.channel.finish());
            let sockets: Vec<_> = self.list.iter().map(|peer| peer.channel.socket()).collect();
            if self.list.is_empty() || poll_until(&sockets, deadline).is_err() {
                break;
            }
        }
        self.list.clear();
    }
}

/// The error for a failed connection to a rank.
pub(crate) fn lost(rank: usize) -> impl Fn(io::Error) -> Error {
    move |error| Error::lost(rank, ending(&error))
}

fn ending(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "its connection closed: its process or its machine has ended".into()
        }
        ErrorKind::TimedOut => "it did not answer in time".into(),
        _ => format!("its connection: {error}"),
    }
}
