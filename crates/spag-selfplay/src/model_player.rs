//! A language model as a player.

use std::collections::HashMap;
use std::sync::Arc;

use spag_game::{Player, PlayerError, PollMode, Reply, TurnFailure, TurnRequest, UtteranceRule};
use spag_model::{
    Checkpoint, CompletionText, Engine, EngineConfig, Event, Generate, GenerationConfig, GenerationStats, Request,
    RequestError, RequestId, SpecialTokens, Streamed,
};

use crate::error::Result;

/// A model that answers turn requests through an engine.
///
/// Each utterance is sampled with the seed of its request, so a game does not depend on the games beside it. What its text
/// is decoded from follows from the rule of the turn.
pub struct ModelPlayer<E = Engine> {
    engine: E,
    settings: Settings,
    /// The games of open requests.
    games: HashMap<RequestId, usize>,
    /// Games whose turn has a text that the tokenizer cannot encode.
    unanswered: Vec<Reply>,
}

/// The settings of an utterance under each rule.
struct Settings {
    as_decoded: Arc<GenerationConfig>,
    trimmed: Arc<GenerationConfig>,
}

impl Settings {
    fn new(config: GenerationConfig) -> Self {
        // A player may say `</s>`: in the prompts after it that is text, not a special token.
        let config = GenerationConfig { special_tokens: SpecialTokens::AsText, stream: Streamed::No, ..config };
        Self {
            as_decoded: Arc::new(GenerationConfig { text: CompletionText::AfterPrompt, ..config.clone() }),
            trimmed: Arc::new(GenerationConfig { text: CompletionText::Alone, ..config }),
        }
    }

    fn of(&self, rule: UtteranceRule) -> Arc<GenerationConfig> {
        match rule {
            UtteranceRule::AsDecoded => self.as_decoded.clone(),
            UtteranceRule::Trimmed => self.trimmed.clone(),
        }
    }
}

impl ModelPlayer {
    /// Creates a player from a checkpoint. The weights of a clone are shared until they are packed.
    ///
    /// # Errors
    /// Invalid settings.
    pub fn load(checkpoint: Checkpoint, config: GenerationConfig, engine: EngineConfig) -> Result<Self> {
        config.check().map_err(spag_model::Error::from)?;
        Ok(Self::new(Engine::from_checkpoint(checkpoint, engine)?, config))
    }

    /// The budget of a prompt.
    ///
    /// # Errors
    /// The tokenizer cannot encode the text.
    pub fn context_budget(&self, prompt: &str) -> Result<ContextBudget> {
        let tokens = self.engine.tokenizer().encode_prompt(prompt, SpecialTokens::AsText)?.len();
        Ok(ContextBudget {
            prompt: tokens,
            utterance: self.settings.trimmed.max_new_tokens,
            length: self.engine.config().max_length,
        })
    }
}

/// The tokens that a prompt and an utterance need, and those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextBudget {
    /// Tokens of the prompt, including BOS if the tokenizer has one.
    pub prompt: usize,
    /// Maximum tokens of an utterance.
    pub utterance: usize,
    /// Tokens of prompt and utterance together that the player's settings and the model allow.
    pub length: usize,
}

impl ContextBudget {
    /// Tokens of a prompt that fit before the longest utterance.
    pub fn room(&self) -> usize {
        self.length.saturating_sub(self.utterance)
    }

    /// Tokens that the prompt loses on the left.
    pub fn cut(&self) -> usize {
        self.prompt.saturating_sub(self.room())
    }
}

impl<E: Generate> ModelPlayer<E> {
    /// Creates a player from an engine; every utterance is generated with `config`, except for [`GenerationConfig::text`] and
    /// [`GenerationConfig::special_tokens`].
    pub fn new(engine: E, config: GenerationConfig) -> Self {
        Self { engine, settings: Settings::new(config), games: HashMap::new(), unanswered: Vec::new() }
    }

    /// The work of the engine so far.
    pub fn stats(&self) -> GenerationStats {
        self.engine.stats()
    }
}

impl<E: Generate> Player for ModelPlayer<E> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError> {
        let config = self.settings.of(turn.utterances);
        match self.engine.submit(Request { prompt: turn.prompt.into(), seed: turn.seed, config }) {
            Ok(id) => {
                self.games.insert(id, turn.game);
                Ok(())
            }
            Err(error) => {
                self.unanswered.push(failed(turn.game, error)?);
                Ok(())
            }
        }
    }

    /// Runs one step of the engine in either mode.
    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PlayerError> {
        let events = self.engine.step().map_err(PlayerError::caused_by)?;
        let mut replies = std::mem::take(&mut self.unanswered);
        for (id, event) in events {
            // Nothing is streamed, so every event is the last of its request.
            let Some(game) = self.games.remove(&id) else { continue };
            match event {
                Event::Finished(completion) => replies.push(Reply { game, utterance: Ok(completion.text) }),
                Event::Failed(error) => replies.push(failed(game, error)?),
                Event::Prompt(_) | Event::Token(_) => {}
            }
        }
        Ok(replies)
    }
}

/// The reply of a game whose text the tokenizer cannot encode or decode, for example because of a token beyond the vocabulary.
/// Anything else would fail every game: a wrong setting, or a model whose logits are not finite.
fn failed(game: usize, error: RequestError) -> Result<Reply, PlayerError> {
    match error {
        RequestError::Encoding { .. } => Ok(Reply { game, utterance: Err(TurnFailure::of_text(error.to_string())) }),
        other => Err(PlayerError::caused_by(other)),
    }
}
