//! The loop of an engine's thread: steps the engine and forwards its events.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use spag_model::generate::{Event, GenerationStats, RequestId, Streamed};
use spag_model::{Engine, Generate};
use tokio::sync::mpsc::UnboundedSender;

use super::{AdapterChange, Command, SequenceEvent, Submission, fault, finish_reason};
use crate::api::ApiError;
use crate::metrics::EngineMetrics;

/// An open sequence.
struct Open {
    group: u64,
    /// Its number within the HTTP request.
    index: usize,
    /// Whether the client receives every token, or only the completion.
    streams: bool,
    events: UnboundedSender<SequenceEvent>,
    arrived: Instant,
    last_token: Option<Instant>,
}

/// The engine with its open sequences.
pub(super) struct Worker {
    engine: Engine,
    metrics: EngineMetrics,
    open: HashMap<RequestId, Open>,
    /// The open sequences of each HTTP request.
    groups: HashMap<u64, Vec<RequestId>>,
    /// The statistics already added to the metrics.
    reported: GenerationStats,
}

impl Worker {
    /// Without sequences.
    pub(super) fn new(engine: Engine, metrics: EngineMetrics) -> Self {
        let reported = GenerationStats::default();
        Self { engine, metrics, open: HashMap::new(), groups: HashMap::new(), reported }
    }

    /// Serves until all handles are dropped.
    ///
    /// # Errors
    /// The engine failed.
    pub(super) fn run(&mut self, commands: &Receiver<Command>) -> Result<(), String> {
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
                // Fails if the client has disconnected.
                let _ = reply.send(changed.map_err(|error| error.to_string()));
            }
        }
    }

    fn submit(&mut self, submission: Submission) {
        let Submission { group, requests, events, arrived } = submission;
        // The client may have disconnected in the meantime.
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
                    let _ = events.send(Err(ApiError::bad(error.to_string())));
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
        let event = match event {
            Event::Failed(error) => Err(ApiError::server(error.to_string())),
            event => Ok((open.index, event)),
        };
        let is_needed = open.streams || end.is_some();
        let is_gone = is_needed && open.events.send(event).is_err();
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

    /// Updates the metrics.
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

    /// Reports a failure to every client, including those that arrive until the server stops.
    pub(super) fn fail_all(&mut self, commands: &Receiver<Command>) {
        self.groups.clear();
        for (_, open) in self.open.drain() {
            self.metrics.count_end("fault", open.arrived.elapsed());
            let _ = open.events.send(Err(fault()));
        }
        for gauge in [&self.metrics.running, &self.metrics.waiting, &self.metrics.pages_used] {
            gauge.set(0);
        }
        for command in commands {
            if let Command::Submit(submission) = command {
                let _ = submission.events.send(Err(fault()));
            }
        }
    }
}
