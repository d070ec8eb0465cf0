//! The thread of an engine: requests come in over a channel, events go out over one channel per request.
//!
//! The thread never waits for a client. Channels of events are unbounded, but an HTTP request has at most as many events as
//! tokens, and keeps its places in the queue until its answer is sent: a slow reader holds memory and its places, nothing else.
//! Without open sequences the thread sleeps.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use spag_io::catch_panic;
use spag_model::adapter::Adapter;
use spag_model::generate::{AdapterChoice, Event, GenerationStats, RequestId, Streamed};
use spag_model::{Engine, Generate, Request};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::answer::finish_reason;
use crate::api::ApiError;
use crate::error::{Error, Result};
use crate::metrics::EngineMetrics;

/// What happens to the sequences of an HTTP request, which are counted from 0.
#[derive(Debug)]
pub(crate) enum SequenceEvent {
    /// An event of one sequence.
    Of(usize, Event),
    /// The engine refuses the request.
    Refused(String),
    /// The engine failed.
    Fault,
}

enum Command {
    Submit(Submission),
    Abort(u64),
    /// With the way back to the one who waits for it.
    Change(AdapterChange, Sender<Result<(), String>>),
}

/// A change of an engine's adapters.
pub(crate) enum AdapterChange {
    /// Another one, with its name.
    Add(String, Box<Adapter>),
    /// Without the one of this name.
    Remove(String),
}

struct Submission {
    group: u64,
    requests: Vec<Request>,
    events: UnboundedSender<SequenceEvent>,
    arrived: Instant,
}

/// The way to an engine's thread.
pub(crate) struct EngineHandle {
    commands: Sender<Command>,
    /// Places of sequences: running, waiting, and those whose answers are being sent.
    places: Arc<Semaphore>,
    /// Sequences that a request may have, if no other is open.
    pub(crate) capacity: usize,
    fault: Arc<OnceLock<String>>,
    groups: std::sync::atomic::AtomicU64,
}

/// The sequences of an HTTP request. Dropped, they are aborted.
pub(crate) struct Sequences {
    events: UnboundedReceiver<SequenceEvent>,
    group: u64,
    abort: Sender<Command>,
    /// Held until the answer is sent, so that answers that nobody reads are as few as sequences that wait.
    _places: OwnedSemaphorePermit,
}

impl Drop for Sequences {
    fn drop(&mut self) {
        // Of no effect if all have ended; an error if the engine has.
        let _ = self.abort.send(Command::Abort(self.group));
    }
}

impl Sequences {
    /// The next event if it has come, which is `None` after the last.
    pub(crate) fn try_next(&mut self) -> Option<Option<SequenceEvent>> {
        match self.events.try_recv() {
            Err(TryRecvError::Empty) => None,
            received => Some(received.ok()),
        }
    }

    /// The next event; `None` after the last.
    pub(crate) async fn next(&mut self) -> Option<SequenceEvent> {
        self.events.recv().await
    }
}

impl EngineHandle {
    /// Starts the thread. `max_waiting` sequences may wait besides those that run. `faulty` is set when it fails.
    ///
    /// # Errors
    /// The system has no more threads.
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
        let mut worker = Worker {
            engine,
            metrics,
            open: HashMap::new(),
            groups: HashMap::new(),
            reported: GenerationStats::default(),
        };
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

    /// Why the engine has failed.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// Changes the engine's adapters between two of its steps, and waits for it.
    ///
    /// # Errors
    /// 400 if the engine refuses; the engine has failed.
    pub(crate) fn change_adapter(&self, change: AdapterChange) -> Result<(), ApiError> {
        let (reply, done) = mpsc::channel();
        self.commands.send(Command::Change(change, reply)).map_err(|_| failed())?;
        done.recv().map_err(|_| failed())?.map_err(ApiError::bad)
    }

    /// Hands over the sequences of an HTTP request, which run with an adapter.
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
        let group = self.groups.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let submission = Submission { group, requests, events: sender, arrived: Instant::now() };
        self.commands.send(Command::Submit(submission)).map_err(|_| failed())?;
        Ok(Sequences { events, group, abort: self.commands.clone(), _places: places })
    }
}

fn failed() -> ApiError {
    ApiError::unavailable("The engine of this model has failed; the server must be started again")
}

/// A sequence that has not ended.
struct Open {
    group: u64,
    /// Its number within the HTTP request.
    index: usize,
    /// Whether the client needs every token; otherwise the completion.
    streams: bool,
    events: UnboundedSender<SequenceEvent>,
    arrived: Instant,
    last_token: Option<Instant>,
}

struct Worker {
    engine: Engine,
    metrics: EngineMetrics,
    open: HashMap<RequestId, Open>,
    /// The open sequences of each HTTP request.
    groups: HashMap<u64, Vec<RequestId>>,
    /// What the metrics know already.
    reported: GenerationStats,
}

impl Worker {
    /// Serves until all handles are dropped.
    ///
    /// # Errors
    /// A fault of the engine.
    fn run(&mut self, commands: &Receiver<Command>) -> Result<(), String> {
        loop {
            if self.engine.unfinished() == 0 {
                match commands.recv() {
                    Ok(command) => self.obey(command),
                    Err(_) => return Ok(()),
                }
            }
            commands.try_iter().collect::<Vec<_>>().into_iter().for_each(|command| self.obey(command));
            if self.engine.unfinished() > 0 {
                let events = self.engine.step().map_err(|error| error.to_string())?;
                self.metrics.batch.observe(self.engine.load().running.max(events.len()) as f64);
                let now = Instant::now();
                events.into_iter().for_each(|(id, event)| self.pass_on(id, event, now));
            }
            self.report();
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit(submission) => self.submit(submission),
            Command::Abort(group) => self.abort(group),
            Command::Change(change, reply) => {
                let changed = match change {
                    AdapterChange::Add(name, adapter) => self.engine.add_adapter(&name, &adapter),
                    AdapterChange::Remove(name) => self.engine.remove_adapter(&name),
                };
                // An error if the client has gone.
                let _ = reply.send(changed.map_err(|error| error.to_string()));
            }
        }
    }

    fn submit(&mut self, submission: Submission) {
        let Submission { group, requests, events, arrived } = submission;
        // The client may have gone while the command was under way.
        if events.is_closed() {
            return;
        }
        for (index, request) in requests.into_iter().enumerate() {
            let streams = request.config.stream != Streamed::No;
            match self.engine.submit(request) {
                Ok(id) => {
                    let open = Open { group, index, streams, events: events.clone(), arrived, last_token: None };
                    self.open.insert(id, open);
                    self.groups.entry(group).or_default().push(id);
                }
                Err(error) => {
                    self.abort(group);
                    let _ = events.send(SequenceEvent::Refused(error.to_string()));
                    return;
                }
            }
        }
    }

    fn abort(&mut self, group: u64) {
        for id in self.groups.remove(&group).unwrap_or_default() {
            self.engine.abort(id);
            if let Some(open) = self.open.remove(&id) {
                self.metrics.count_end("abort", open.arrived.elapsed());
            }
        }
    }

    fn pass_on(&mut self, id: RequestId, event: Event, now: Instant) {
        let Some(open) = self.open.get_mut(&id) else { return };
        if let Event::Token(_) = &event {
            match open.last_token.replace(now) {
                None => self.metrics.first_token.observe((now - open.arrived).as_secs_f64()),
                Some(last) => self.metrics.next_token.observe((now - last).as_secs_f64()),
            }
        }
        let end = match &event {
            Event::Finished(completion) => Some(finish_reason(completion.finish)),
            Event::Failed(_) => Some("error"),
            Event::Prompt(_) | Event::Token(_) => None,
        };
        let is_needed = open.streams || end.is_some();
        let is_gone = is_needed && open.events.send(SequenceEvent::Of(open.index, event)).is_err();
        let group = open.group;
        if let Some(reason) = end {
            self.metrics.count_end(reason, now - open.arrived);
            self.open.remove(&id);
            if let Some(ids) = self.groups.get_mut(&group) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.groups.remove(&group);
                }
            }
        } else if is_gone {
            self.abort(group);
        }
    }

    /// Brings the metrics up to date.
    fn report(&mut self) {
        let (now, before) = (self.engine.stats(), self.reported);
        let (metrics, load) = (&self.metrics, self.engine.load());
        metrics.prompt_tokens.inc_by(now.prompt_tokens - before.prompt_tokens);
        metrics.cached_tokens.inc_by(now.cached_tokens - before.cached_tokens);
        metrics.generated_tokens.inc_by(now.new_tokens - before.new_tokens);
        metrics.steps.inc_by(now.steps - before.steps);
        metrics.preemptions.inc_by(now.preemptions - before.preemptions);
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        metrics.running.set(gauge(load.running));
        metrics.waiting.set(gauge(load.waiting));
        metrics.pages_used.set(gauge(load.pages_in_use));
        metrics.hit_rate.set(now.hit_rate());
        self.reported = now;
    }

    /// Tells every client of a fault, also those that come until the server ends.
    fn fail_all(&mut self, commands: &Receiver<Command>) {
        self.groups.clear();
        for (_, open) in self.open.drain() {
            self.metrics.count_end("fault", open.arrived.elapsed());
            let _ = open.events.send(SequenceEvent::Fault);
        }
        for gauge in [&self.metrics.running, &self.metrics.waiting, &self.metrics.pages_used] {
            gauge.set(0);
        }
        for command in commands {
            if let Command::Submit(submission) = command {
                let _ = submission.events.send(SequenceEvent::Fault);
            }
        }
    }
}
