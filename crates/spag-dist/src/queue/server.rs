//! The queue on rank 0: the list, a thread that serves the other ranks, and rank 0's own share.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::tracker::ItemTracker;
use super::worker::{Close, Worker};
use super::{Assignment, MAX_ITEMS, Reply, Request};
use crate::net::{Channel, Incoming, RendezvousListener, Service, Waker, poll_until, remaining};
use crate::{Error, JoinOptions, LaunchEnv, Result};

/// How long an authenticated connection may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the last messages to the other ranks may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Server {
    /// Without a thread for a single process.
    shared: Worker<Shared>,
}

/// Shared by rank 0's own work and the thread that serves the others.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    waker: Waker,
}

#[derive(Debug)]
struct State {
    items: ItemTracker,
    /// A rank with other settings has joined.
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
        task: &str,
        items: usize,
    ) -> Result<Self> {
        let system = Error::system("the work queue");
        let state =
            State { items: ItemTracker::new(items, env.world_size), failure: None, lost: Vec::new(), closing: false };
        let waker = Waker::new().map_err(&system)?;
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), waker });
        let Some(listener) = listener else { return Ok(Self { shared: Worker::new(shared, None) }) };
        let server = ServerThread {
            shared: Arc::clone(&shared),
            listener,
            size: env.world_size,
            options: options.clone(),
            task: task.to_owned(),
            items,
            opened: Instant::now(),
            clients: Vec::new(),
            informed: vec![false; env.world_size],
            failed: None,
        };
        let thread = std::thread::Builder::new().name("queue".into()).spawn(move || server.run()).map_err(&system)?;
        Ok(Self { shared: Worker::new(shared, Some(thread)) })
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

    /// Waits as a drop does. Returns the ranks that have hung or never joined.
    pub(crate) fn close(mut self) -> Vec<Error> {
        self.shared.close();
        self.lost()
    }

    pub(crate) fn done(&self, items: &[usize]) -> Result<()> {
        let result = self.shared.state().items.done(0, items);
        self.shared.notify();
        result.map_err(|item| Error::lost(0, format!("it reported item {item}, which was never assigned")))
    }
}

impl Close for Shared {
    fn close(&self) {
        self.state().closing = true;
        self.waker.wake();
    }
}

struct ServerThread {
    shared: Arc<Shared>,
    listener: RendezvousListener,
    size: usize,
    options: JoinOptions,
    task: String,
    items: usize,
    opened: Instant,
    clients: Vec<ClientConnection>,
    /// Ranks that know that all items are done or that the queue has failed, and ranks that are lost.
    informed: Vec<bool>,
    /// The failure, and since when.
    failed: Option<(Error, Instant)>,
}

struct ClientConnection {
    rank: usize,
    channel: Channel,
    last_message: Instant,
    /// The number of items of its pending [`Request::Next`].
    wants: Option<usize>,
    knows_end: bool,
    gone: bool,
}

impl ServerThread {
    fn run(mut self) {
        let mut next_heartbeat = Instant::now();
        let mut last_round = Instant::now();
        loop {
            let now = Instant::now();
            // Rank 0 was stopped, so it could not receive heartbeats.
            if now.duration_since(last_round) > self.options.heartbeat_interval + self.options.heartbeat_timeout / 2 {
                self.clients.iter_mut().for_each(|client| client.last_message = now);
            }
            last_round = now;
            while let Some(incoming) = self.listener.acceptor.next(now) {
                self.accept(incoming);
            }
            self.receive(now);
            self.reply();
            if now >= next_heartbeat {
                self.clients.iter_mut().filter(|client| client.channel.is_flushed()).for_each(|client| {
                    let _ = client.channel.queue(&Reply::Heartbeat);
                });
                next_heartbeat = now + self.options.heartbeat_interval;
            }
            for client in &mut self.clients {
                client.gone |= client.channel.flush().is_err();
            }
            self.remove_gone();
            if self.may_close(now) {
                self.record_absent();
                let channels = self.clients.iter_mut().map(|client| &mut client.channel);
                return Channel::close_all(channels, now + CLOSE_TIMEOUT);
            }
            let arrivals = self.listener.acceptor.arrivals();
            let mut sockets = vec![self.shared.waker.socket(), arrivals.socket()];
            sockets.extend(self.clients.iter().map(|client| client.channel.socket()));
            if poll_until(&sockets, next_heartbeat).is_err() {
                std::thread::sleep(Duration::from_millis(10).min(remaining(next_heartbeat)));
            }
            self.shared.waker.clear();
            arrivals.clear();
        }
    }

    /// Whether rank 0 has dropped its queue, and all ranks are informed or have had enough time.
    fn may_close(&self, now: Instant) -> bool {
        let state = self.shared.state();
        let all_informed = self.informed.iter().skip(1).all(|informed| *informed);
        let all_flushed = self.clients.iter().all(|client| client.channel.is_flushed());
        let has_waited = match &self.failed {
            // Ranks that still connect receive the error.
            Some((_, since)) => now.duration_since(*since) > CLOSE_TIMEOUT,
            None => now.duration_since(self.opened) > self.options.join_timeout,
        };
        let gives_up = self.failed.is_none() && !state.items.is_finished();
        state.closing && (gives_up || has_waited || (all_informed && all_flushed))
    }

    /// Ranks that have not joined although rank 0 has waited for them.
    fn record_absent(&self) {
        let mut state = self.shared.state();
        if self.failed.is_none() && state.items.is_finished() {
            let seconds = self.options.join_timeout.as_secs();
            let absent = self.informed.iter().enumerate().skip(1).filter(|(_, informed)| !**informed);
            let error = |(rank, _)| Error::lost(rank, format!("it did not join within {seconds} s"));
            state.lost.extend(absent.map(error));
        }
    }

    fn accept(&mut self, incoming: Incoming) {
        // A rank with another token fails in the handshake, and the queue continues without it.
        let Incoming::Accepted(hello, stream, _) = incoming else { return };
        let rank = hello.rank as usize;
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        let request = Channel::new(stream)
            .and_then(|mut channel| channel.receive_by::<Request>(deadline).map(|request| (request, channel)));
        let Ok((Request::Join { version, world_size, task, items }, mut channel)) = request else { return };
        if hello.service != Service::Queue {
            return;
        }
        let facts = [
            ("the program's version", version, self.options.version.clone()),
            ("the number of ranks", world_size.to_string(), self.size.to_string()),
            ("the work", task, self.task.clone()),
            ("the number of items", items.to_string(), self.items.to_string()),
        ];
        let differs = facts.into_iter().find(|(_, theirs, ours)| theirs != ours);
        let is_connected = self.clients.iter_mut().any(|client| {
            client.rank == rank && client.channel.receive::<Request>().is_ok_and(|_| !client.channel.has_ended())
        });
        let error = match (&self.failed, differs) {
            (Some((error, _)), _) => error.clone(),
            (None, Some((what, theirs, first))) => Error::Disagree { rank, what: what.to_owned(), theirs, first },
            (None, None) if rank == 0 || rank >= self.size || is_connected => Error::DuplicateRank { rank },
            (None, None) => {
                let _ = channel.queue(&Reply::Joined);
                let (last_message, wants) = (Instant::now(), None);
                let client = ClientConnection { rank, channel, last_message, wants, knows_end: false, gone: false };
                self.clients.push(client);
                if self.clients.len() + 1 == self.size {
                    self.listener.remove_token_file();
                }
                return;
            }
        };
        let reply = Reply::Failed(error.clone());
        let _ = channel.send_by(&reply, Instant::now() + CLOSE_TIMEOUT);
        channel.close_sending();
        set(&mut self.informed, rank);
        if self.failed.is_none() {
            for client in &mut self.clients {
                let _ = client.channel.queue(&reply);
                set(&mut self.informed, client.rank);
            }
            self.failed = Some((error.clone(), Instant::now()));
            self.shared.state().failure.get_or_insert(error);
            self.shared.notify();
        }
    }

    fn receive(&mut self, now: Instant) {
        let mut changed = false;
        for client in &mut self.clients {
            let Ok(requests) = client.channel.receive::<Request>() else {
                client.gone = true;
                continue;
            };
            if !requests.is_empty() {
                client.last_message = now;
            }
            for request in requests {
                match request {
                    Request::Heartbeat | Request::Join { .. } => {}
                    Request::Next { at_most } => client.wants = Some(at_most.clamp(1, MAX_ITEMS)),
                    Request::Done { items } => {
                        changed = true;
                        // A rank that reports items that it cannot have is dropped.
                        client.gone |= self.shared.state().items.done(client.rank, &items).is_err();
                    }
                }
            }
            client.gone |= client.channel.has_ended();
            let timeout = self.options.heartbeat_timeout;
            if now.duration_since(client.last_message) > timeout {
                let reason = format!("no heartbeat for {} s", timeout.as_secs_f64());
                self.shared.state().lost.push(Error::lost(client.rank, reason.clone()));
                let _ = client.channel.queue(&Reply::Expired { reason });
                let _ = client.channel.flush();
                client.gone = true;
            }
        }
        if changed {
            self.shared.notify();
        }
    }

    /// Answers pending requests, and tells all ranks once all items are done.
    fn reply(&mut self) {
        let mut state = self.shared.state();
        for client in self.clients.iter_mut().filter(|client| !client.gone) {
            if state.items.is_finished() {
                if !client.knows_end {
                    client.knows_end = true;
                    client.gone |= client.channel.queue(&Reply::Assigned(Assignment::Finished)).is_err();
                    set(&mut self.informed, client.rank);
                }
            } else if let Some(assignment) = client.wants.and_then(|at_most| state.items.assign(client.rank, at_most)) {
                client.wants = None;
                client.gone |= client.channel.queue(&Reply::Assigned(assignment)).is_err();
            }
        }
    }

    /// Returns the items of lost ranks to the list.
    fn remove_gone(&mut self) {
        let before = self.clients.len();
        self.clients.retain(|client| {
            if client.gone {
                client.channel.close_sending();
                self.shared.state().items.return_items(client.rank);
                // Closing does not wait for it. It is informed if it connects again.
                set(&mut self.informed, client.rank);
            }
            !client.gone
        });
        if self.clients.len() < before {
            self.shared.notify();
        }
    }
}

fn set(flags: &mut [bool], rank: usize) {
    if let Some(flag) = flags.get_mut(rank) {
        *flag = true;
    }
}
