//! From a prompt to an utterance, through as many tries as it takes: what each thread of a player does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use spag_game::{PlayerError, TurnFailure};

use super::EndpointStats;
use super::backoff::Backoff;
use super::config::EndpointConfig;
use super::gate::{Gate, Stopped};
use super::protocol::request_body;
use super::transport::{Pausing, Transport, Tried};
use crate::player_spec::EndpointSpec;

/// A turn that waits for its answer.
pub(super) struct Job {
    pub(super) game: usize,
    pub(super) prompt: String,
    pub(super) seed: u64,
}

/// What became of a [`Job`].
pub(super) struct Answer {
    pub(super) game: usize,
    pub(super) said: Result<String, Trouble>,
}

/// Why there is no utterance.
pub(super) enum Trouble {
    /// For this turn.
    Turn(TurnFailure),
    /// For no turn.
    Fatal(PlayerError),
    /// Nobody waits for it any more.
    Stopped,
}

impl From<Stopped> for Trouble {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Shared by all threads of a player.
pub(super) struct Client {
    spec: EndpointSpec,
    config: EndpointConfig,
    transport: Transport,
    gate: Gate,
    stats: Mutex<EndpointStats>,
}

impl Client {
    pub(super) fn new(spec: EndpointSpec, config: EndpointConfig) -> Self {
        let (transport, gate) = (Transport::new(&spec, &config), Gate::new(config.requests_per_minute));
        Self { spec, config, transport, gate, stats: Mutex::default() }
    }

    pub(super) fn stats(&self) -> EndpointStats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is begun any more, and nobody waits.
    pub(super) fn stop(&self) {
        self.gate.stop();
    }

    /// Takes one job after another, until there are none to come or nobody wants the answers.
    pub(super) fn work(&self, jobs: &Mutex<Receiver<Job>>, answers: &Sender<Answer>) {
        loop {
            // The lock is held while waiting: the other threads wait for it, which comes to the same.
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            // A fault of ours costs a game, not the whole run for want of an answer.
            let said = catch_unwind(AssertUnwindSafe(|| self.answer(&job)))
                .unwrap_or_else(|_| Err(Trouble::Turn(TurnFailure::new("a fault in the client; please report it"))));
            if matches!(said, Err(Trouble::Turn(_))) {
                self.count(|stats| stats.failures += 1);
            }
            if matches!(said, Err(Trouble::Fatal(_))) {
                // What is refused now is refused always: the server is left alone.
                self.stop();
            }
            let stopped = matches!(said, Err(Trouble::Stopped));
            if stopped || answers.send(Answer { game: job.game, said }).is_err() {
                return;
            }
        }
    }

    fn answer(&self, job: &Job) -> Result<String, Trouble> {
        let body = request_body(&self.spec, &self.config, &job.prompt, job.seed);
        let mut backoff = Backoff::new(self.config.retry, job.seed);
        let mut tries = 0;
        loop {
            self.gate.pass()?;
            self.count(|stats| stats.requests += 1);
            tries += 1;
            match self.transport.send(&body) {
                Tried::Said(text, usage) => {
                    self.count(|stats| stats.add(usage));
                    return Ok(text);
                }
                Tried::Refused(message, usage) => {
                    self.count(|stats| stats.add(usage));
                    return Err(Trouble::Turn(TurnFailure::new(message)));
                }
                Tried::Fatal(message) => return Err(Trouble::Fatal(PlayerError::new(message))),
                Tried::Again { reason, .. } if tries >= self.config.retry.tries => {
                    let message = format!("no answer after {tries} tries, the last one: {reason}");
                    return Err(Trouble::Turn(TurnFailure::new(message)));
                }
                Tried::Again { after, who, .. } => {
                    self.count(|stats| stats.retries += 1);
                    let wait = backoff.next(after);
                    match who {
                        // This thread, too, stands at the gate next.
                        Pausing::Everyone => self.gate.close(wait),
                        Pausing::Alone => self.gate.rest(wait)?,
                    }
                }
            }
        }
    }

    fn count(&self, change: impl FnOnce(&mut EndpointStats)) {
        change(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
