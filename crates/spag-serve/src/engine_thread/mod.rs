//! The thread of an engine: requests come in over a channel, events go out over one channel per request.
//!
//! The thread never waits for a client. Event channels are unbounded, but an HTTP request has at most as many events as tokens,
//! and keeps its queue slots until its answer is sent, so a slow reader costs only memory and its slots. The thread sleeps
//! while no sequence is open.

mod worker;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use spag_io::catch_panic;
use spag_model::adapter::Adapter;
use spag_model::generate::{AdapterChoice, Event, FinishReason};
use spag_model::{Engine, Request};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::api::ApiError;
use crate::error::{Error, Result};
use crate::metrics::EngineMetrics;
use worker::Worker;

/// An event of a sequence of an HTTP request, indexed from 0; never [`Event::Failed`]. An error ends all sequences of the
/// request.
pub(crate) type SequenceEvent = Result<(usize, Event), ApiError>;

enum Command {
    Submit(Submission),
    Abort(u64),
    /// With the channel for the reply.
    Change(AdapterChange, Sender<Result<(), String>>),
}

/// A change of an engine's adapters.
pub(crate) enum AdapterChange {
    /// Loads an adapter under a name.
    Add(String, Box<Adapter>),
    /// Unloads the adapter with this name.
    Remove(String),
}

struct Submission {
    group: u64,
    requests: Vec<Request>,
    events: UnboundedSender<SequenceEvent>,
    arrived: Instant,
}

/// A handle to an engine's thread.
pub(crate) struct EngineHandle {
    commands: Sender<Command>,
    /// Slots of sequences: running, waiting, and those whose answers are being sent.
    places: Arc<Semaphore>,
    /// Maximum sequences of a request when no other is open.
    pub(crate) capacity: usize,
    fault: Arc<OnceLock<String>>,
    groups: AtomicU64,
}

/// The sequences of an HTTP request, aborted on drop.
pub(crate) struct Sequences {
    events: UnboundedReceiver<SequenceEvent>,
    group: u64,
    abort: Sender<Command>,
    /// Held until the answer is sent, so that unread answers count towards the limit of waiting sequences.
    _places: OwnedSemaphorePermit,
}

impl Drop for Sequences {
    fn drop(&mut self) {
        // Has no effect if all have ended; fails if the engine has stopped.
        let _ = self.abort.send(Command::Abort(self.group));
    }
}

impl Sequences {
    /// [`Sequences::next`] without waiting.
    pub(crate) fn try_next(&mut self) -> Option<SequenceEvent> {
        match self.events.try_recv() {
            Err(TryRecvError::Empty) => None,
            received => Some(received.unwrap_or_else(|_| Err(fault()))),
        }
    }

    /// The next event; an error after the last.
    pub(crate) async fn next(&mut self) -> SequenceEvent {
        self.events.recv().await.unwrap_or_else(|| Err(fault()))
    }
}

impl EngineHandle {
    /// Starts the thread. `max_waiting` sequences may wait in addition to the running ones. `faulty` is set on
    /// failure.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub(crate) fn start(
        engine: Engine,
        metrics: EngineMetrics,
        max_waiting: usize,
        faulty: watch::Sender<bool>,
    ) -> Result<Self> {
        let capacity = engine.config().max_running.saturating_add(max_waiting).min(Semaphore::MAX_PERMITS);
        let (commands, received) = mpsc::channel();
        let fault = Arc::new(OnceLock::new());
        metrics.pages.set(i64::try_from(engine.config().pages).unwrap_or(i64::MAX));
        let mut worker = Worker::new(engine, metrics);
        let shared = fault.clone();
        let run = move || {
            let ended = catch_panic(|| worker.run(&received)).unwrap_or_else(Err);
            if let Err(reason) = ended {
                let _ = shared.set(reason);
                faulty.send_replace(true);
                worker.fail_all(&received);
            }
        };
        thread::Builder::new().name("engine".into()).spawn(run).map_err(Error::Start)?;
        Ok(Self { commands, places: Arc::new(Semaphore::new(capacity)), capacity, fault, groups: 0.into() })
    }

    /// Why the engine failed, if it did.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// Changes the engine's adapters between two steps, and waits for completion.
    ///
    /// # Errors
    /// 400 if the engine refuses the change; or the engine has failed.
    pub(crate) fn change_adapter(&self, change: AdapterChange) -> Result<(), ApiError> {
        let (reply, done) = mpsc::channel();
        self.commands.send(Command::Change(change, reply)).map_err(|_| failed())?;
        done.recv().map_err(|_| failed())?.map_err(ApiError::bad)
    }

    /// Submits the sequences of an HTTP request, which use an adapter.
    ///
    /// # Errors
    /// The queue is full, or the engine has failed.
    pub(crate) fn submit(&self, mut requests: Vec<Request>, adapter: &AdapterChoice) -> Result<Sequences, ApiError> {
        for request in requests.iter_mut().filter(|request| request.config.adapter != *adapter) {
            Arc::make_mut(&mut request.config).adapter = adapter.clone();
        }
        if self.fault().is_some() {
            return Err(failed());
        }
        let number = u32::try_from(requests.len()).unwrap_or(u32::MAX);
        let Ok(places) = self.places.clone().try_acquire_many_owned(number) else {
            return Err(ApiError::busy(format!(
                "The queue of this model is full ({} sequences run, wait or are being sent); try again later",
                self.capacity - self.places.available_permits()
            )));
        };
        let (sender, events) = unbounded_channel();
        let group = self.groups.fetch_add(1, Ordering::Relaxed);
        let submission = Submission { group, requests, events: sender, arrived: Instant::now() };
        self.commands.send(Command::Submit(submission)).map_err(|_| failed())?;
        Ok(Sequences { events, group, abort: self.commands.clone(), _places: places })
    }
}

/// The message to clients after the engine has failed.
const FAILED: &str = "The engine of this model has failed; the server must be started again";

/// The error of a request that arrives after a failure.
fn failed() -> ApiError {
    ApiError::unavailable(FAILED)
}

/// The error of a request that was in progress.
fn fault() -> ApiError {
    ApiError::server(FAILED)
}

/// The finish reason of a sequence in answers and metrics.
pub(crate) fn finish_reason(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Length => "length",
        FinishReason::Eos | FinishReason::StopToken | FinishReason::StopString => "stop",
    }
}
