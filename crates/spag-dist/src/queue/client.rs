//! The queue on ranks other than 0: a thread that sends heartbeats and the caller's requests.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::worker::{Close, Worker};
use super::{Assignment, MAX_ITEMS, Reply, Request};
use crate::net::{Channel, Hello, NO_SESSION, Service, Waker, connect_to_rank0, poll_until};
use crate::{Error, JoinOptions, LaunchEnv, Result};

/// How long a rank that leaves waits for its last messages to be received.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Client {
    shared: Worker<Shared>,
    /// Held during a request, so that its reply reaches the right caller.
    asking: Mutex<()>,
}

/// Shared by the caller and the thread.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    waker: Waker,
}

#[derive(Debug, Default)]
struct State {
    /// To be sent.
    requests: Vec<Request>,
    /// The reply to the last [`Request::Next`].
    assignment: Option<Assignment>,
    finished: bool,
    failure: Option<Error>,
    closing: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, requests: impl IntoIterator<Item = Request>) -> Result<()> {
        let mut state = self.state();
        // Once all items are done, reports of items that were done twice are not needed.
        if state.finished {
            return Ok(());
        }
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        state.requests.extend(requests);
        self.waker.wake();
        Ok(())
    }
}

impl Client {
    pub(crate) fn open(env: &LaunchEnv, options: &JoinOptions, task: &str, items: usize) -> Result<Self> {
        let deadline = Instant::now() + options.join_timeout;
        let hello = Hello { service: Service::Queue, rank: env.rank as u32, session: NO_SESSION };
        let (stream, _) = connect_to_rank0(env, options, hello, deadline)?;
        let lost = |error: io::Error| Error::lost(0, describe(&error));
        let mut channel = Channel::new(stream).map_err(lost)?;
        let join = Request::Join {
            version: options.version.clone(),
            world_size: env.world_size,
            task: task.to_owned(),
            items,
        };
        channel.send_by(&join, deadline).map_err(lost)?;
        if let Reply::Failed(error) = channel.receive_by::<Reply>(deadline).map_err(lost)? {
            return Err(error);
        }
        let system = Error::system("the work queue");
        let waker = Waker::new().map_err(&system)?;
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new(), waker });
        let thread = ClientThread { shared: Arc::clone(&shared), channel, options: options.clone(), rank: env.rank };
        let thread = std::thread::Builder::new().name("queue".into()).spawn(move || thread.run()).map_err(&system)?;
        Ok(Self { shared: Worker::new(shared, Some(thread)), asking: Mutex::new(()) })
    }

    pub(crate) fn next(&self, at_most: usize) -> Result<Assignment> {
        let _one_at_a_time = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.send([Request::Next { at_most: at_most.clamp(1, MAX_ITEMS) }])?;
        let mut state = self.shared.state();
        loop {
            if let Some(assignment) = state.assignment.take() {
                return Ok(assignment);
            }
            if state.finished {
                return Ok(Assignment::Finished);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn done(&self, items: &[usize]) -> Result<()> {
        // Without duplicates, since lists may be long.
        let items: Vec<usize> = BTreeSet::from_iter(items.iter().copied()).into_iter().collect();
        self.shared.send(items.chunks(MAX_ITEMS).map(|items| Request::Done { items: items.to_vec() }))
    }
}

impl Close for Shared {
    fn close(&self) {
        self.state().closing = true;
        self.waker.wake();
    }
}

struct ClientThread {
    shared: Arc<Shared>,
    channel: Channel,
    options: JoinOptions,
    rank: usize,
}

impl ClientThread {
    fn run(mut self) {
        let result = self.serve();
        let mut state = self.shared.state();
        if let Err(failure) = result
            && !state.finished
        {
            state.failure.get_or_insert(failure);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    fn serve(&mut self) -> Result<()> {
        let lost = |error: io::Error| Error::lost(0, error.to_string());
        let (heartbeat, timeout) = (self.options.heartbeat_interval, self.options.heartbeat_timeout);
        let mut last_message = Instant::now();
        let mut next_heartbeat = last_message;
        let mut last_round = last_message;
        loop {
            let now = Instant::now();
            // This process was stopped, so it could not receive heartbeats.
            if now.duration_since(last_round) > heartbeat + timeout / 2 {
                last_message = now;
            }
            last_round = now;
            let (requests, closing) = {
                let mut state = self.shared.state();
                (std::mem::take(&mut state.requests), state.closing)
            };
            for request in &requests {
                self.channel.queue(request).map_err(lost)?;
            }
            if now >= next_heartbeat {
                if self.channel.is_flushed() {
                    self.channel.queue(&Request::Heartbeat).map_err(lost)?;
                }
                next_heartbeat = now + heartbeat;
            }
            // An error is handled below, after the messages that arrived before it.
            let flushed = self.channel.flush();
            let replies = self.channel.receive::<Reply>().map_err(|error| Error::lost(0, describe(&error)))?;
            if !replies.is_empty() {
                last_message = now;
            }
            for reply in replies {
                self.handle(reply)?;
            }
            if self.shared.state().finished || closing {
                // Delivers the last messages.
                Channel::close_all([&mut self.channel], now + LEAVE_TIMEOUT);
                return Ok(());
            }
            if self.channel.has_ended() || flushed.is_err() {
                return Err(Error::lost(0, describe(&ErrorKind::UnexpectedEof.into())));
            }
            if now.duration_since(last_message) > timeout {
                return Err(Error::lost(0, format!("no heartbeat for {} s", timeout.as_secs_f64())));
            }
            poll_until(&[self.shared.waker.socket(), self.channel.socket()], next_heartbeat).map_err(lost)?;
            self.shared.waker.clear();
        }
    }

    fn handle(&self, reply: Reply) -> Result<()> {
        let mut state = self.shared.state();
        match reply {
            Reply::Heartbeat | Reply::Joined => return Ok(()),
            Reply::Assigned(Assignment::Finished) => state.finished = true,
            Reply::Assigned(assignment) => state.assignment = Some(assignment),
            Reply::Failed(error) => return Err(error),
            Reply::Expired { reason } => {
                return Err(Error::lost(self.rank, format!("rank 0 reassigned its items: {reason}")));
            }
        }
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "its connection closed before everything was done: its process has ended".into()
        }
        ErrorKind::TimedOut => "it did not answer in time".into(),
        _ => format!("its connection: {error}"),
    }
}
