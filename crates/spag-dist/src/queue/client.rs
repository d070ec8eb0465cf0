//! Any other rank's side: a thread that keeps the connection to rank 0 alive, and asks on behalf of the caller.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Turn;
use super::message::{MAX_ITEMS, Reply, Request};
use crate::net::{Channel, Hello, NO_SESSION, Service, Waker, meeting, poll_until, reach, remaining, token_source};
use crate::{Error, JoinOptions, LaunchEnv, Result};

/// How long a rank that ends waits until its last words are taken.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A rank's connection to the queue.
#[derive(Debug)]
pub(crate) struct Client {
    desk: Arc<Desk>,
    /// One caller asks at a time.
    asking: Mutex<()>,
    thread: Option<JoinHandle<()>>,
}

/// Shared by the caller and the thread.
#[derive(Debug)]
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
    waker: Waker,
}

#[derive(Debug, Default)]
struct State {
    /// To be sent.
    requests: Vec<Request>,
    /// The answer to the last question.
    answer: Option<Turn>,
    finished: bool,
    failure: Option<Error>,
    closing: bool,
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, requests: impl IntoIterator<Item = Request>) -> Result<()> {
        let mut state = self.state();
        match (&state.failure, state.finished) {
            // What another rank has done as well is of no interest any more.
            (_, true) => Ok(()),
            (Some(failure), false) => Err(failure.clone()),
            (None, false) => {
                state.requests.extend(requests);
                self.waker.wake();
                Ok(())
            }
        }
    }
}

impl Client {
    pub(crate) fn open(env: &LaunchEnv, options: &JoinOptions, task: &str, items: usize) -> Result<Self> {
        let deadline = Instant::now() + options.join_timeout;
        let meeting = meeting(env, options)?;
        let source = token_source(env, options)?;
        let hello = Hello { service: Service::Queue, rank: env.rank as u32, session: NO_SESSION };
        let (stream, _) = reach(env, options, &meeting, &source, hello, deadline)?;
        let lost = |error: io::Error| Error::Lost { rank: 0, reason: describe(&error) };
        let mut channel = Channel::new(stream).map_err(lost)?;
        let join = Request::Join {
            version: options.version.clone(),
            world_size: env.world_size,
            task: task.to_owned(),
            items,
        };
        channel.send_by(&join, deadline).map_err(lost)?;
        if let Reply::Refused(refusal) = channel.receive_by::<Reply>(deadline).map_err(lost)? {
            return Err(refusal.into());
        }
        let system = |error: io::Error| Error::System { what: "the work queue", reason: error.to_string() };
        let waker = Waker::new().map_err(system)?;
        let desk = Arc::new(Desk { state: Mutex::default(), changed: Condvar::new(), waker });
        let line = Line { desk: Arc::clone(&desk), channel, options: options.clone(), rank: env.rank };
        let thread = std::thread::Builder::new().name("queue".into()).spawn(move || line.run()).map_err(system)?;
        Ok(Self { desk, asking: Mutex::new(()), thread: Some(thread) })
    }

    pub(crate) fn next(&self, at_most: usize) -> Result<Turn> {
        let _one_at_a_time = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        self.desk.send([Request::Ask { at_most: at_most.clamp(1, MAX_ITEMS) }])?;
        let mut state = self.desk.state();
        loop {
            if let Some(turn) = state.answer.take() {
                return Ok(turn);
            }
            if state.finished {
                return Ok(Turn::Finished);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state = self.desk.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn done(&self, items: &[usize]) -> Result<()> {
        // Once each: lists may be long.
        let items: Vec<usize> = BTreeSet::from_iter(items.iter().copied()).into_iter().collect();
        self.desk.send(items.chunks(MAX_ITEMS).map(|items| Request::Done { items: items.to_vec() }))
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.desk.state().closing = true;
        self.desk.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's side.
struct Line {
    desk: Arc<Desk>,
    channel: Channel,
    options: JoinOptions,
    rank: usize,
}

impl Line {
    fn run(mut self) {
        let result = self.serve();
        let mut state = self.desk.state();
        if let Err(failure) = result
            && !state.finished
        {
            state.failure.get_or_insert(failure);
        }
        drop(state);
        self.desk.changed.notify_all();
    }

    fn serve(&mut self) -> Result<()> {
        let lost = |reason: String| Error::Lost { rank: 0, reason };
        let mut heard = Instant::now();
        let mut next_beat = heard;
        let mut last_round = heard;
        loop {
            let now = Instant::now();
            // This process itself stood still.
            if now.duration_since(last_round) > self.options.heartbeat + self.options.silence / 2 {
                heard = now;
            }
            last_round = now;
            let (requests, closing) = {
                let mut state = self.desk.state();
                (std::mem::take(&mut state.requests), state.closing)
            };
            for request in &requests {
                self.channel.queue(request).map_err(|error| lost(error.to_string()))?;
            }
            if now >= next_beat {
                if self.channel.is_flushed() {
                    self.channel.queue(&Request::Beat).map_err(|error| lost(error.to_string()))?;
                }
                next_beat = now + self.options.heartbeat;
            }
            // A broken connection is found below, after what was said before it broke.
            let flushed = self.channel.flush();
            let replies = self.channel.receive::<Reply>().map_err(|error| lost(describe(&error)))?;
            if !replies.is_empty() {
                heard = now;
            }
            for reply in replies {
                self.take_in(reply)?;
            }
            if self.desk.state().finished || closing {
                return self.leave();
            }
            if self.channel.has_ended() || flushed.is_err() {
                return Err(lost(describe(&ErrorKind::UnexpectedEof.into())));
            }
            if now.duration_since(heard) > self.options.silence {
                let seconds = self.options.silence.as_secs_f64();
                return Err(lost(format!("nothing was heard of it for {seconds} s")));
            }
            poll_until(&[self.desk.waker.socket(), self.channel.socket()], next_beat)
                .map_err(|error| lost(error.to_string()))?;
            self.desk.waker.clear();
        }
    }

    fn take_in(&self, reply: Reply) -> Result<()> {
        let mut state = self.desk.state();
        match reply {
            Reply::Beat | Reply::Welcome => return Ok(()),
            Reply::Items(items) => state.answer = Some(Turn::Items(items)),
            Reply::FinishYours => state.answer = Some(Turn::FinishYours),
            Reply::Finished => state.finished = true,
            Reply::Refused(refusal) => return Err(refusal.into()),
            Reply::GivenUp { reason } => {
                let reason = format!("rank 0 gave its work to others: {reason}");
                return Err(Error::Lost { rank: self.rank, reason });
            }
        }
        drop(state);
        self.desk.changed.notify_all();
        Ok(())
    }

    /// Everything is done, or this rank wants no more: what it has said last is still delivered.
    fn leave(&mut self) -> Result<()> {
        let deadline = Instant::now() + LAST_WORDS;
        while !self.channel.is_flushed() && !remaining(deadline).is_zero() {
            if self.channel.flush().is_err() || poll_until(&[self.channel.socket()], deadline).is_err() {
                break;
            }
        }
        self.channel.close_sending();
        // Until rank 0 closes too: closing with something unread would lose what was said last.
        while !remaining(deadline).is_zero() && !self.channel.has_ended() {
            let heard = self.channel.receive::<Reply>();
            if heard.is_err() || poll_until(&[self.channel.socket()], deadline).is_err() {
                break;
            }
        }
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
