//! A player behind a server with the OpenAI protocol.

mod backoff;
mod client;
mod config;
mod key;
mod keys;
mod pool;
mod protocol;
mod rate_limiter;
mod scheduler;
mod transport;

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use spag_game::{Policy, PolicyError, PollMode, Reply, TurnRequest};
use spag_io::TurnPrompt;

pub use config::{EndpointConfig, RetryConfig};
pub use key::ApiKey;
pub use keys::EndpointKeys;
pub use protocol::PromptStyle;

use crate::error::{Error, Result};
use crate::player_spec::EndpointSpec;
use client::{Answer, AnswerError, Client, Job};
use protocol::Usage;

/// The longest wait of a poll, so that signals are noticed.
const WAIT: Duration = Duration::from_millis(100);

/// The work of an endpoint, of all its URLs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// Requests sent, including retries.
    pub requests: u64,
    /// Retries.
    pub retries: u64,
    /// Turns without an utterance.
    pub failures: u64,
    /// Prompt tokens as reported by the server.
    pub prompt_tokens: u64,
    /// Completion tokens as reported by the server.
    pub completion_tokens: u64,
}

impl EndpointStats {
    fn add(&mut self, usage: Usage) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(usage.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(usage.completion_tokens);
    }
}

/// A model behind any OpenAI-compatible server, or a pool of servers.
///
/// Threads take turns from a queue, send requests and retry them. A turn that fails permanently (context too long, content
/// filter, no answer) fails its game. An error that every turn would meet (refused key, unknown model) ends the run.
///
/// In a pool, each turn goes to the URL with the fewest open turns, and preferably to the one that had the game before. If a
/// URL cannot be reached, or gives no utterance after all tries, its turns go to the others; it is tried again after
/// [`RetryConfig::rest`]. A turn fails if it fails at all URLs.
///
/// Each request has a seed derived from its turn, so a server that honours seeds is reproducible. Dropping the player does
/// not wait for requests in flight.
///
/// ```no_run
/// use spag_selfplay::{EndpointConfig, EndpointKeys, EndpointPlayer, PlayerSpec};
///
/// # fn main() -> spag_selfplay::Result<()> {
/// let player: PlayerSpec = "openai:http://localhost:8000/v1#llama-2-7b".parse()?;
/// let keys = EndpointKeys::from_env([&player])?;
/// if let PlayerSpec::Endpoint(spec) = player {
///     let config = EndpointConfig { key: keys.of(&spec), ..EndpointConfig::default() };
///     let player = EndpointPlayer::new(spec, config)?;
/// }
/// # Ok(())
/// # }
/// ```
pub struct EndpointPlayer {
    client: Arc<Client>,
    jobs: Sender<Job>,
    answers: Receiver<Answer>,
    open: usize,
    requests_in_flight: usize,
}

impl EndpointPlayer {
    /// Starts the threads of a player; sends no request.
    ///
    /// # Errors
    /// An invalid setting, or a thread that cannot be started.
    pub fn new(spec: EndpointSpec, config: EndpointConfig) -> Result<Self> {
        config.check()?;
        // Waiting threads cost little, and slots of a failed URL are left unused.
        let in_flight = config.in_flight * spec.servers.urls().len();
        let client = Arc::new(Client::new(spec, config));
        let (jobs, waiting) = channel();
        let (done, answers) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..in_flight {
            let (client, waiting, done) = (client.clone(), waiting.clone(), done.clone());
            thread::Builder::new()
                .name(format!("endpoint-{number}"))
                .spawn(move || client.work(&waiting, &done))
                .map_err(|source| Error::Threads { wanted: in_flight, source })?;
        }
        Ok(Self { client, jobs, answers, open: 0, requests_in_flight: in_flight })
    }

    /// Maximum concurrent requests.
    pub fn requests_in_flight(&self) -> usize {
        self.requests_in_flight
    }

    /// The work so far.
    pub fn stats(&self) -> EndpointStats {
        self.client.stats()
    }

    fn reply(&mut self, answer: Answer) -> Result<Reply, PolicyError> {
        self.open = self.open.saturating_sub(1);
        let utterance = match answer.utterance {
            Ok(text) => Ok(text.into()),
            Err(AnswerError::Turn(failure)) => Err(failure),
            Err(AnswerError::Fatal(error)) => return Err(error),
            Err(AnswerError::Stopped) => return Err(threads_ended()),
        };
        Ok(Reply { game: answer.game, utterance })
    }

    /// Why all threads have ended: the fatal error of one, which it sent before it ended.
    fn fatal_error(&self) -> PolicyError {
        let fatal = |answer: Answer| match answer.utterance {
            Err(AnswerError::Fatal(error)) => Some(error),
            _ => None,
        };
        self.answers.try_iter().find_map(fatal).unwrap_or_else(threads_ended)
    }
}

/// Cannot happen: without a fatal error, the threads live as long as the player.
fn threads_ended() -> PolicyError {
    PolicyError::new("the threads that talk to the endpoint have ended; please report it")
}

impl Policy for EndpointPlayer {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        if let (PromptStyle::Completion, TurnPrompt::Chat(_)) = (self.client.style(), turn.prompt) {
            return Err(PolicyError::of_input(format!(
                "{} completes texts and takes no messages; write it as an {} endpoint, or use the prompt format plain",
                self.client.address(),
                PromptStyle::Chat.scheme()
            )));
        }
        let job = Job { game: turn.game, prompt: turn.prompt.to_owned(), seed: turn.seed };
        self.jobs.send(job).map_err(|_| self.fatal_error())?;
        self.open += 1;
        Ok(())
    }

    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PolicyError> {
        let mut replies = Vec::new();
        if mode == PollMode::Blocking && self.open > 0 {
            match self.answers.recv_timeout(WAIT) {
                Ok(answer) => replies.push(self.reply(answer)?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(threads_ended()),
            }
        }
        while self.open > 0 {
            match self.answers.try_recv() {
                Ok(answer) => replies.push(self.reply(answer)?),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(threads_ended()),
            }
        }
        Ok(replies)
    }
}

impl Drop for EndpointPlayer {
    fn drop(&mut self) {
        // Waiting threads end at once, others after their request.
        self.client.stop();
    }
}

impl fmt::Debug for EndpointPlayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointPlayer").field("open", &self.open).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
