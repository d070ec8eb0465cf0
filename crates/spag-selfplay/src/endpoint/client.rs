//! What each thread of a player does: turns prompts into utterances, with retries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use spag_game::{Said, TurnFailure};

use super::backoff::Backoff;
use super::config::EndpointConfig;
use super::dialect::Dialect;
use super::pool::{Pool, Stopped};
use super::protocol::request_body;
use super::spec::{EndpointSpec, PromptStyle};
use super::stats::EndpointStats;
use super::transport::{Attempt, Trouble};
use super::turn::{EndpointTurn, NoUtterance};

/// A turn that waits for an utterance, and who gets it.
pub(super) struct Job {
    pub(super) turn: EndpointTurn,
    pub(super) answered: Box<dyn FnOnce(Result<Said, NoUtterance>) + Send>,
}

/// Why a turn ends without an utterance.
enum Failed {
    With(NoUtterance),
    /// All threads are to end.
    Stopped,
}

impl From<Stopped> for Failed {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<TurnFailure> for Failed {
    fn from(failure: TurnFailure) -> Self {
        Self::With(NoUtterance::Turn(failure))
    }
}

/// Shared by all threads of a player.
pub(super) struct Client {
    spec: EndpointSpec,
    config: EndpointConfig,
    pool: Pool,
    stats: Mutex<EndpointStats>,
    told_of_top_k: AtomicBool,
}

impl Client {
    pub(super) fn new(spec: EndpointSpec, config: EndpointConfig) -> Self {
        let pool = Pool::new(&spec, &config);
        Self { spec, config, pool, stats: Mutex::default(), told_of_top_k: AtomicBool::new(false) }
    }

    pub(super) fn style(&self) -> PromptStyle {
        self.spec.style
    }

    pub(super) fn address(&self) -> String {
        self.spec.address()
    }

    pub(super) fn stats(&self) -> EndpointStats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops all threads, except those in the middle of a request.
    pub(super) fn stop(&self) {
        self.pool.stop();
    }

    /// Whether [`Client::stop`] was called.
    pub(super) fn is_stopped(&self) -> bool {
        self.pool.is_stopped()
    }

    /// Processes jobs until there can be no more, or the client is stopped.
    pub(super) fn work(&self, jobs: &Mutex<Receiver<Job>>) {
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Job { turn, answered }) = job else { return };
            // A panic fails one turn; without an answer its game would wait forever.
            let utterance = spag_io::catch_panic(|| self.answer(&turn))
                .unwrap_or_else(|message| Err(TurnFailure::new(format!("a fault in the client: {message}")).into()));
            match utterance {
                Ok(said) => answered(Ok(said)),
                Err(Failed::Stopped) => return,
                Err(Failed::With(why)) => {
                    if let NoUtterance::Turn(_) = why {
                        self.count(|stats| stats.failures += 1);
                    }
                    answered(Err(why));
                }
            }
        }
    }

    /// Asks for an utterance until there is one, or until the turn has had all tries of all URLs.
    fn answer(&self, turn: &EndpointTurn) -> Result<Said, Failed> {
        let temperature = turn.temperature.unwrap_or(self.config.sampling.temperature);
        let sampled = |dialect: Dialect| {
            if dialect.lacks_top_k(&self.config, temperature) && !self.told_of_top_k.swap(true, Ordering::Relaxed) {
                (self.config.report)(&format!(
                    "{} is not known to accept top_k: tokens are drawn from all; set top_k to ask for it all the same",
                    self.address()
                ));
            }
            let mut body = request_body(&self.spec, &self.config, turn);
            dialect.add_sampling(&mut body, &self.config, temperature);
            self.add_known(&mut body, dialect, &turn.choices)?;
            Ok(body)
        };
        let said = |message| self.config.said(message, (self.spec.style, &turn.prompt));
        let mut backoff = Backoff::new(self.config.retry, turn.seed);
        let mut tries = Tries::new(self.pool.servers.len(), self.config.retry.tries);
        loop {
            let lease = self.pool.lease(turn.game, &tries.made, tries.most)?;
            lease.acquire()?;
            self.count(|stats| stats.requests += 1);
            tries.begin(lease.index, lease.answers);
            let (reason, after, trouble) = match lease.server.transport.send(sampled, said) {
                Attempt::Utterance(said, usage) => {
                    lease.answered();
                    self.count(|stats| stats.add(usage));
                    return Ok(said);
                }
                Attempt::Refused(message, usage) => {
                    lease.answered();
                    self.count(|stats| stats.add(usage));
                    return Err(TurnFailure::new(message).into());
                }
                Attempt::Fatal(message) => return Err(Failed::With(NoUtterance::Fatal(message))),
                Attempt::Retry { reason, after, trouble } => (reason, after, trouble),
            };
            if trouble == Trouble::NoAnswer && tries.has_others(lease.index) {
                // Another URL may answer at once.
                tries.give_up(lease.index);
            }
            if tries.are_made(lease.index) {
                // A server that answers other turns works; it is this turn that it cannot answer.
                if trouble == Trouble::NoAnswer || !lease.has_answered_since(tries.answers(lease.index)) {
                    lease.failed(&reason);
                }
                if !tries.has_others(lease.index) {
                    let message = format!("no answer after {} tries, the last one: {reason}", tries.sum);
                    return Err(TurnFailure::new(message).into());
                }
                self.count(|stats| stats.retries += 1);
                continue;
            }
            self.count(|stats| stats.retries += 1);
            let wait = backoff.next(after);
            if trouble == Trouble::Busy {
                // The next request then waits too, or goes to another URL.
                lease.pause(wait);
            } else {
                // Others may use its slot.
                drop(lease);
                self.pool.sleep(wait)?;
            }
        }
    }

    /// Adds what only some servers know: the list that the utterance is one of, variables of the template, and kept reasoning by other
    /// names.
    ///
    /// # Errors
    /// The server is not known to know it.
    fn add_known(&self, body: &mut Value, dialect: Dialect, choices: &[String]) -> Result<(), String> {
        let unknown = |what: &str, instead: &str| {
            let address = self.address();
            format!("{address} is not known to {what}, as spag serve, vLLM, SGLang and llama.cpp do; {instead}")
        };
        if !choices.is_empty() {
            let unheld = || unknown("hold its answers to a list", "play without constrain_actions");
            dialect.add_choices(body, choices).ok_or_else(unheld)?;
        }
        let kwargs = &self.config.template.chat_template_kwargs;
        // A text to complete has no template.
        if self.spec.style == PromptStyle::Chat && !kwargs.is_empty() {
            let unset = || unknown("accept chat_template_kwargs", "leave them out");
            dialect.add_template_kwargs(body, kwargs).ok_or_else(unset)?;
        }
        dialect.add_reasoning_names(body);
        Ok(())
    }

    fn count(&self, change: impl FnOnce(&mut EndpointStats)) {
        change(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The tries of one turn.
struct Tries {
    /// By server.
    made: Vec<u32>,
    /// The answers of each server before the turn's first try.
    answers: Vec<Option<u64>>,
    /// Maximum for a server.
    most: u32,
    /// Of all servers.
    sum: u32,
}

impl Tries {
    fn new(servers: usize, most: u32) -> Self {
        Self { made: vec![0; servers], answers: vec![None; servers], most, sum: 0 }
    }

    /// Counts a try of a server that has given `answers`.
    fn begin(&mut self, server: usize, answers: u64) {
        self.sum += 1;
        if let (Some(made), Some(before)) = (self.made.get_mut(server), self.answers.get_mut(server)) {
            *made += 1;
            before.get_or_insert(answers);
        }
    }

    /// Leaves no tries of a server.
    fn give_up(&mut self, server: usize) {
        if let Some(made) = self.made.get_mut(server) {
            *made = self.most;
        }
    }

    /// Whether all tries of a server are made.
    fn are_made(&self, server: usize) -> bool {
        self.made.get(server).is_none_or(|made| *made >= self.most)
    }

    /// Whether tries of another server are left.
    fn has_others(&self, server: usize) -> bool {
        self.made.iter().enumerate().any(|(other, made)| other != server && *made < self.most)
    }

    /// The answers of a server before the first try.
    fn answers(&self, server: usize) -> u64 {
        self.answers.get(server).copied().flatten().unwrap_or_default()
    }
}
