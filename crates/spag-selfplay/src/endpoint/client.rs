//! What each thread of a player does: turns prompts into utterances, with retries.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use spag_game::{PlayerError, TurnFailure};

use super::EndpointStats;
use super::backoff::Backoff;
use super::config::EndpointConfig;
use super::protocol::request_body;
use super::rate_limiter::{RateLimiter, Stopped};
use super::transport::{Attempt, Pause, Transport};
use crate::player_spec::EndpointSpec;

/// A turn that waits for an utterance.
pub(super) struct Job {
    pub(super) game: usize,
    pub(super) prompt: String,
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
    Fatal(PlayerError),
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
    transport: Transport,
    limiter: RateLimiter,
    stats: Mutex<EndpointStats>,
}

impl Client {
    pub(super) fn new(spec: EndpointSpec, config: EndpointConfig) -> Self {
        let (transport, limiter) = (Transport::new(&spec, &config), RateLimiter::new(config.requests_per_minute));
        Self { spec, config, transport, limiter, stats: Mutex::default() }
    }

    pub(super) fn stats(&self) -> EndpointStats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops all threads, except those in the middle of a request.
    pub(super) fn stop(&self) {
        self.limiter.stop();
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

    fn answer(&self, job: &Job) -> Result<String, AnswerError> {
        let body = request_body(&self.spec, &self.config, &job.prompt, job.seed);
        let mut backoff = Backoff::new(self.config.retry, job.seed);
        let mut tries = 0;
        loop {
            self.limiter.acquire()?;
            self.count(|stats| stats.requests += 1);
            tries += 1;
            match self.transport.send(&body) {
                Attempt::Utterance(text, usage) => {
                    self.count(|stats| stats.add(usage));
                    return Ok(text);
                }
                Attempt::Refused(message, usage) => {
                    self.count(|stats| stats.add(usage));
                    return Err(AnswerError::Turn(TurnFailure::new(message)));
                }
                Attempt::Fatal(message) => return Err(AnswerError::Fatal(PlayerError::new(message))),
                Attempt::Retry { reason, .. } if tries >= self.config.retry.tries => {
                    let message = format!("no answer after {tries} tries, the last one: {reason}");
                    return Err(AnswerError::Turn(TurnFailure::new(message)));
                }
                Attempt::Retry { after, pause, .. } => {
                    self.count(|stats| stats.retries += 1);
                    let wait = backoff.next(after);
                    match pause {
                        // `acquire` then waits in this thread too.
                        Pause::AllRequests => self.limiter.pause_all(wait),
                        Pause::ThisRequest => self.limiter.sleep(wait)?,
                    }
                }
            }
        }
    }

    fn count(&self, change: impl FnOnce(&mut EndpointStats)) {
        change(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
