//! The threads that ask an endpoint, each turn on behalf of whoever wants it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use spag_game::Said;
use spag_io::{ReasoningRule, TurnPrompt};

use super::client::{Client, Job};
use super::config::EndpointConfig;
use super::spec::{EndpointSpec, PromptStyle};
use super::stats::EndpointStats;
use super::turn::{EndpointTurn, NoUtterance};
use crate::error::{Error, Result};

/// Asks a model behind a server, or a pool of servers, for utterances. Any thread may ask.
///
/// Threads take turns from a queue, send requests and retry them, as [`EndpointPlayer`](super::EndpointPlayer) says, which is a player
/// on top of this. Dropping it does not wait for requests in flight.
pub struct EndpointAsker {
    client: Arc<Client>,
    jobs: Sender<Job>,
    open: Arc<AtomicUsize>,
    requests_in_flight: usize,
    kept_reasoning: Option<ReasoningRule>,
}

impl EndpointAsker {
    /// Starts the threads; sends no request.
    ///
    /// # Errors
    /// An invalid setting, or a thread that cannot be started.
    pub fn new(spec: EndpointSpec, config: EndpointConfig) -> Result<Self> {
        config.check()?;
        // Waiting threads cost little, and slots of a failed URL are left unused.
        let in_flight = config.in_flight * spec.servers.urls().len();
        let kept_reasoning = config.kept_reasoning();
        let client = Arc::new(Client::new(spec, config));
        let (jobs, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..in_flight {
            let (client, waiting) = (client.clone(), waiting.clone());
            thread::Builder::new()
                .name(format!("endpoint-{number}"))
                .spawn(move || client.work(&waiting))
                .map_err(|source| Error::Threads { wanted: in_flight, source })?;
        }
        Ok(Self { client, jobs, open: Arc::default(), requests_in_flight: in_flight, kept_reasoning })
    }

    /// Asks for an utterance. `answered` gets it from another thread, with the reasoning before it, or why there is none; neither if this
    /// is dropped before.
    ///
    /// # Errors
    /// The endpoint completes texts, and the prompt is a chat.
    pub fn ask(
        &self,
        turn: EndpointTurn,
        answered: impl FnOnce(Result<Said, NoUtterance>) + Send + 'static,
    ) -> Result<()> {
        if let (PromptStyle::Completion, TurnPrompt::Chat(_)) = (self.client.style(), &turn.prompt) {
            return Err(Error::NoMessages { endpoint: self.client.address(), chats: PromptStyle::Chat.scheme() });
        }
        let open = self.open.clone();
        open.fetch_add(1, Ordering::Relaxed);
        let answered = move |utterance| {
            open.fetch_sub(1, Ordering::Relaxed);
            answered(utterance);
        };
        // Fails only if all threads have ended, which a stopped client alone makes them do.
        let _ = self.jobs.send(Job { turn, answered: Box::new(answered) });
        Ok(())
    }

    /// What identifies the endpoint, without its key.
    pub fn address(&self) -> String {
        self.client.address()
    }

    /// Turns that were asked for and have no answer yet.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Maximum concurrent requests.
    pub fn requests_in_flight(&self) -> usize {
        self.requests_in_flight
    }

    /// How later prompts show the player's own reasoning, if they do.
    pub fn kept_reasoning(&self) -> Option<&ReasoningRule> {
        self.kept_reasoning.as_ref()
    }

    /// The work so far.
    pub fn stats(&self) -> EndpointStats {
        self.client.stats()
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.client
    }
}

impl Drop for EndpointAsker {
    fn drop(&mut self) {
        // Waiting threads end at once, others after their request.
        self.client.stop();
    }
}

impl fmt::Debug for EndpointAsker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointAsker")
            .field("open", &self.open())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
