//! A player behind a server with the OpenAI protocol.

mod asker;
mod backoff;
mod client;
mod config;
mod dialect;
mod key;
mod keys;
mod pool;
mod protocol;
mod rate_limiter;
mod reasoning;
mod scheduler;
mod spec;
mod stats;
mod transport;
mod turn;

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use spag_game::{Policy, PolicyError, PollMode, Reply, Said, TurnRequest};

pub use asker::EndpointAsker;
pub use config::{EndpointConfig, RetryConfig, TopK};
pub use key::ApiKey;
pub use keys::EndpointKeys;
pub(crate) use spec::key_variable;
pub use spec::{EndpointSpec, PromptStyle};
pub use stats::EndpointStats;
pub use turn::{EndpointTurn, NoUtterance};

use crate::error::Result;

/// The longest wait of a poll, so that signals are noticed.
const WAIT: Duration = Duration::from_millis(100);

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
/// Before its first request, a server is asked for the list of its models. One that names itself as `spag serve`, vLLM,
/// SGLang or llama.cpp's there gets `top_k`, and `top_p`, `min_p` and a penalty of repetition that are off unless wanted, so
/// that defaults of the server or of the model's folder do not change how tokens are drawn.
///
/// Reasoning comes in a field of its own, `reasoning_content` or `reasoning`, or in the text, from which the format of
/// [`EndpointConfig::with_reasoning`] splits it. Without a format, the text is said as it is.
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
    asker: EndpointAsker,
    /// Given to every turn.
    done: Sender<Answer>,
    answers: Receiver<Answer>,
    open: usize,
    /// What utterances are, in games that list their actions.
    speech: Speech,
}

/// What an endpoint may say where a game lists its actions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speech {
    Anything,
    Actions,
}

/// The answer to a turn of a game.
struct Answer {
    game: usize,
    utterance: Result<Said, NoUtterance>,
}

impl EndpointPlayer {
    /// Starts the threads of a player; sends no request.
    ///
    /// # Errors
    /// An invalid setting, or a thread that cannot be started.
    pub fn new(spec: EndpointSpec, config: EndpointConfig) -> Result<Self> {
        let (done, answers) = channel();
        Ok(Self { asker: EndpointAsker::new(spec, config)?, done, answers, open: 0, speech: Speech::Anything })
    }

    /// The same player, whose utterances in games that list their actions are one of them. A server that is not known to accept such a
    /// list ends the run.
    #[must_use]
    pub fn with_held_actions(self) -> Self {
        Self { speech: Speech::Actions, ..self }
    }

    /// Maximum concurrent requests.
    pub fn requests_in_flight(&self) -> usize {
        self.asker.requests_in_flight()
    }

    /// The work so far.
    pub fn stats(&self) -> EndpointStats {
        self.asker.stats()
    }

    /// Why the threads were stopped: the error that a turn met.
    fn fatal_error(&self) -> PolicyError {
        let fatal = |answer: Answer| match answer.utterance {
            Err(NoUtterance::Fatal(message)) => Some(PolicyError::new(message)),
            _ => None,
        };
        let told_before =
            || PolicyError::new("the endpoint is not asked any more, after the error that was told before");
        self.answers.try_iter().find_map(fatal).unwrap_or_else(told_before)
    }

    fn reply(&mut self, answer: Answer) -> Result<Reply, PolicyError> {
        self.open = self.open.saturating_sub(1);
        let utterance = match answer.utterance {
            Ok(said) => Ok(said),
            Err(NoUtterance::Turn(failure)) => Err(failure),
            Err(NoUtterance::Fatal(message)) => return Err(PolicyError::new(message)),
        };
        Ok(Reply { number: answer.game, utterance })
    }
}

impl Policy for EndpointPlayer {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PolicyError> {
        if self.asker.client().is_stopped() {
            return Err(self.fatal_error());
        }
        let (game, done, client) = (turn.number, self.done.clone(), self.asker.client().clone());
        let answered = move |utterance| {
            let is_fatal = matches!(utterance, Err(NoUtterance::Fatal(_)));
            // Fails only if the player was dropped.
            let _ = done.send(Answer { game, utterance });
            if is_fatal {
                // All later requests would be refused too.
                client.stop();
            }
        };
        let choices = turn.legal_actions.filter(|_| self.speech == Speech::Actions).unwrap_or_default().to_vec();
        let prompt = match self.asker.kept_reasoning() {
            Some(rule) => turn.prompt_with_reasoning(rule),
            None => turn.prompt.clone(),
        };
        let asked = EndpointTurn { game, prompt, seed: turn.seed, temperature: None, choices };
        self.asker.ask(asked, answered).map_err(|error| PolicyError::of_input(error.to_string()))?;
        self.open += 1;
        Ok(())
    }

    fn poll(&mut self, mode: PollMode) -> Result<Vec<Reply>, PolicyError> {
        // Read before the answers, since the error that stopped the threads is among them.
        let is_stopped = self.asker.client().is_stopped();
        let mut replies = Vec::new();
        if mode == PollMode::Blocking
            && self.open > 0
            && let Ok(answer) = self.answers.recv_timeout(WAIT)
        {
            replies.push(self.reply(answer)?);
        }
        while self.open > 0 {
            let Ok(answer) = self.answers.try_recv() else { break };
            replies.push(self.reply(answer)?);
        }
        if is_stopped && replies.is_empty() && self.open > 0 {
            return Err(self.fatal_error());
        }
        Ok(replies)
    }
}

impl fmt::Debug for EndpointPlayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointPlayer").field("open", &self.open).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
