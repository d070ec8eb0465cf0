//! What each thread of a player does: turns prompts into utterances, with retries.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use spag_game::{PolicyError, TurnFailure};
use spag_io::TurnPrompt;

use super::EndpointStats;
use super::backoff::Backoff;
use super::config::EndpointConfig;
use super::pool::{Pool, Stopped};
use super::protocol::{PromptStyle, request_body};
use super::transport::{Attempt, Trouble};
use crate::player_spec::EndpointSpec;

/// A turn that waits for an utterance.
pub(super) struct Job {
    pub(super) game: usize,
    pub(super) prompt: TurnPrompt,
    pub(super) seed: u64,
}

/// The result of a [`Job`].
pub(super) struct Answer {
    pub(super) game: usize,
    pub(super) utterance: Result<String, AnswerError>,
}

/// Why there is no utterance.
pub(super) enum AnswerError {
    /// This turn failed.
    Turn(TurnFailure),
    /// Every turn would fail.
    Fatal(PolicyError),
    /// The player was dropped.
    Stopped,
}

impl From<Stopped> for AnswerError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Shared by all threads of a player.
pub(super) struct Client {
    spec: EndpointSpec,
    config: EndpointConfig,
    pool: Pool,
    stats: Mutex<EndpointStats>,
}

impl Client {
    pub(super) fn new(spec: EndpointSpec, config: EndpointConfig) -> Self {
        let pool = Pool::new(&spec, &config);
        Self { spec, config, pool, stats: Mutex::default() }
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

    /// Processes jobs until one of the channels is closed.
    pub(super) fn work(&self, jobs: &Mutex<Receiver<Job>>, answers: &Sender<Answer>) {
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            // A panic fails one game; without an answer the run would wait forever.
            let utterance = spag_io::catch_panic(|| self.answer(&job)).unwrap_or_else(|message| {
                Err(AnswerError::Turn(TurnFailure::new(format!("a fault in the client: {message}"))))
            });
            match utterance {
                Err(AnswerError::Turn(_)) => self.count(|stats| stats.failures += 1),
                // All later requests would be refused too.
                Err(AnswerError::Fatal(_)) => self.stop(),
                Err(AnswerError::Stopped) => return,
                Ok(_) => {}
            }
            if answers.send(Answer { game: job.game, utterance }).is_err() {
                return;
            }
        }
    }

    /// Asks for an utterance until there is one, or until the turn has had all tries of all URLs.
    fn answer(&self, job: &Job) -> Result<String, AnswerError> {
        let body = request_body(&self.spec, &self.config, &job.prompt, job.seed);
        let mut backoff = Backoff::new(self.config.retry, job.seed);
        let mut tries = Tries::new(self.pool.servers.len(), self.config.retry.tries);
        loop {
            let lease = self.pool.lease(job.game, &tries.made, tries.most)?;
            lease.acquire()?;
            self.count(|stats| stats.requests += 1);
            tries.begin(lease.index, lease.answers);
            let (reason, after, trouble) = match lease.server.transport.send(&body) {
                Attempt::Utterance(text, usage) => {
                    lease.answered();
                    self.count(|stats| stats.add(usage));
                    return Ok(text);
                }
                Attempt::Refused(message, usage) => {
                    lease.answered();
                    self.count(|stats| stats.add(usage));
                    return Err(AnswerError::Turn(TurnFailure::new(message)));
                }
                Attempt::Fatal(message) => return Err(AnswerError::Fatal(PolicyError::new(message))),
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
                    return Err(AnswerError::Turn(TurnFailure::new(message)));
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
