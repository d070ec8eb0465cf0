//! A player behind a server that speaks the OpenAI protocol.

mod backoff;
mod client;
mod config;
mod gate;
mod key;
mod protocol;
mod transport;

use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use spag_game::{Player, PlayerError, PollMode, Reply, TurnRequest};

pub use config::{EndpointConfig, RetryConfig};
pub use key::ApiKey;

use crate::error::{Error, Result};
use crate::player_spec::EndpointSpec;
use client::{Answer, Client, Job, Trouble};
use protocol::Usage;

/// How long a poll waits for an answer at most, so that an interruption is noticed.
const WAIT: Duration = Duration::from_millis(100);

/// What an endpoint was asked for so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// Requests sent, every try counted.
    pub requests: u64,
    /// Tries after the first of a turn.
    pub retries: u64,
    /// Turns that got no utterance.
    pub failures: u64,
    /// Tokens of prompts, as far as the server reports them.
    pub prompt_tokens: u64,
    /// Tokens of utterances, as far as the server reports them.
    pub completion_tokens: u64,
}

impl EndpointStats {
    fn add(&mut self, usage: Usage) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(usage.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(usage.completion_tokens);
    }
}

/// A model behind any OpenAI-compatible server.
///
/// Turns wait in a queue for one of a few threads, which ask the server and, where that may help, ask again. What fails
/// for good with one turn (a context too long, a content filter, a server that stays silent) fails its game; what would
/// fail with every turn (a key that is refused, a model that is unknown) ends the run.
///
/// Each request carries a seed that follows from its turn, so a server that honours seeds says the same whatever else
/// it is asked. Dropped, the player waits for nobody: requests under way are left to their timeout.
///
/// ```no_run
/// use spag_selfplay::{ApiKey, EndpointConfig, EndpointPlayer, PlayerSpec};
///
/// # fn main() -> spag_selfplay::Result<()> {
/// if let PlayerSpec::Endpoint(spec) = "openai:http://localhost:8000/v1#llama-2-7b".parse()? {
///     let config = EndpointConfig { key: ApiKey::from_env()?, ..EndpointConfig::default() };
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
}

impl EndpointPlayer {
    /// A player with its threads; nothing is sent yet.
    ///
    /// # Errors
    /// A setting that cannot be used, or too few threads.
    pub fn new(spec: EndpointSpec, config: EndpointConfig) -> Result<Self> {
        config.check()?;
        let in_flight = config.in_flight;
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
        Ok(Self { client, jobs, answers, open: 0 })
    }

    /// What the endpoint was asked for so far.
    pub fn stats(&self) -> EndpointStats {
        self.client.stats()
    }

    fn reply(&mut self, answer: Answer) -> Result<Reply, PlayerError> {
        self.open = self.open.saturating_sub(1);
        let utterance = match answer.said {
            Ok(text) => Ok(text),
            Err(Trouble::Turn(failure)) => Err(failure),
            Err(Trouble::Fatal(error)) => return Err(error),
            Err(Trouble::Stopped) => return Err(gone()),
        };
        Ok(Reply { game: answer.game, utterance })
    }
}

/// Cannot happen while the player lives: its threads end with it.
fn gone() -> PlayerError {
    PlayerError::new("the threads that talk to the endpoint have ended; please report it")
}

impl Player for EndpointPlayer {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError> {
        let job = Job { game: turn.game, prompt: turn.prompt.to_owned(), seed: turn.seed };
        self.jobs.send(job).map_err(|_| gone())?;
        self.open += 1;
        Ok(())
    }

    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PlayerError> {
        let mut replies = Vec::new();
        if mode == PollMode::Blocking && self.open > 0 {
            match self.answers.recv_timeout(WAIT) {
                Ok(answer) => replies.push(self.reply(answer)?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
        while self.open > 0 {
            match self.answers.try_recv() {
                Ok(answer) => replies.push(self.reply(answer)?),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Err(gone()),
            }
        }
        Ok(replies)
    }
}

impl Drop for EndpointPlayer {
    fn drop(&mut self) {
        // Those that wait go home at once; one that is in the middle of a request ends with it, and nobody waits for it.
        self.client.stop();
    }
}

impl fmt::Debug for EndpointPlayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointPlayer").field("open", &self.open).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
