//! A language model as a player.

use std::collections::HashMap;
use std::sync::Arc;

use spag_game::{Player, PlayerError, PollMode, Reply, TurnRequest};
use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, GenerationStats, Request, RequestId};

use crate::error::Result;

/// A model that answers turn requests through an engine.
///
/// Each utterance is sampled with the seed of its request, so a game does not depend on the games beside it.
pub struct ModelPlayer<E = Engine> {
    engine: E,
    config: Arc<GenerationConfig>,
    /// The games of open requests.
    games: HashMap<RequestId, usize>,
}

impl ModelPlayer {
    /// Creates a player from a checkpoint.
    ///
    /// # Errors
    /// Invalid settings.
    pub fn load(checkpoint: &Checkpoint, config: GenerationConfig, engine: EngineConfig) -> Result<Self> {
        config.check()?;
        Ok(Self::new(Engine::new(checkpoint, engine)?, config))
    }

    /// The budget of a prompt.
    ///
    /// # Errors
    /// The tokenizer cannot encode the text.
    pub fn context_budget(&self, prompt: &str) -> Result<ContextBudget> {
        let tokens = self.engine.tokenizer().encode(prompt)?.len() + 1;
        Ok(ContextBudget {
            prompt: tokens,
            utterance: self.config.max_new_tokens,
            length: self.engine.config().max_length,
        })
    }
}

/// The tokens that a prompt and an utterance need, and the context length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextBudget {
    /// Tokens of the prompt, including BOS.
    pub prompt: usize,
    /// Maximum tokens of an utterance.
    pub utterance: usize,
    /// The context length.
    pub length: usize,
}

impl ContextBudget {
    /// Whether the prompt and the longest utterance fit into the context.
    pub fn fits(&self) -> bool {
        self.prompt.saturating_add(self.utterance) <= self.length
    }
}

impl<E: Generate> ModelPlayer<E> {
    /// Creates a player from an engine; every utterance is generated with `config`.
    pub fn new(engine: E, config: GenerationConfig) -> Self {
        Self { engine, config: Arc::new(config), games: HashMap::new() }
    }

    /// The work of the engine so far.
    pub fn stats(&self) -> GenerationStats {
        self.engine.stats()
    }
}

impl<E: Generate> Player for ModelPlayer<E> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError> {
        let request = Request { prompt: turn.prompt.to_owned(), seed: turn.seed, config: self.config.clone() };
        let id = self.engine.submit(request).map_err(PlayerError::caused_by)?;
        self.games.insert(id, turn.game);
        Ok(())
    }

    /// Runs one step of the engine in either mode.
    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PlayerError> {
        let completions = self.engine.step().map_err(PlayerError::caused_by)?;
        let replies = completions.into_iter().filter_map(|(id, completion)| {
            let game = self.games.remove(&id)?;
            Some(Reply { game, utterance: Ok(completion.text) })
        });
        Ok(replies.collect())
    }
}
