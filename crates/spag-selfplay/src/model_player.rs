//! A language model as a player.

use std::collections::HashMap;
use std::sync::Arc;

use spag_game::{Player, PlayerError, PollMode, Reply, TurnFailure, TurnRequest, UtteranceRule};
use spag_model::{
    Checkpoint, CompletionText, Engine, EngineConfig, Generate, GenerationConfig, GenerationStats, Request, RequestId,
    SpecialTokens,
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
    unreadable: Vec<Reply>,
}

/// The settings of an utterance under each rule.
struct Settings {
    as_decoded: Arc<GenerationConfig>,
    trimmed: Arc<GenerationConfig>,
}

impl Settings {
    fn new(config: GenerationConfig) -> Self {
        // A player may say `</s>`: in the prompts after it that is text, not a special token.
        let config = GenerationConfig { special_tokens: SpecialTokens::AsText, ..config };
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
        config.check()?;
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
        Self { engine, settings: Settings::new(config), games: HashMap::new(), unreadable: Vec::new() }
    }

    /// The work of the engine so far.
    pub fn stats(&self) -> GenerationStats {
        self.engine.stats()
    }
}

impl<E: Generate> Player for ModelPlayer<E> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError> {
        let config = self.settings.of(turn.utterances);
        match self.engine.submit(Request { prompt: turn.prompt.to_owned(), seed: turn.seed, config }) {
            Ok(id) => {
                self.games.insert(id, turn.game);
                Ok(())
            }
            // The text of this game is at fault, for example a token beyond the vocabulary.
            Err(error @ spag_model::Error::Encoding { .. }) => {
                let failure = TurnFailure::of_text(error.to_string());
                self.unreadable.push(Reply { game: turn.game, utterance: Err(failure) });
                Ok(())
            }
            Err(error) => Err(PlayerError::caused_by(error)),
        }
    }

    /// Runs one step of the engine in either mode.
    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PlayerError> {
        let completions = self.engine.step().map_err(PlayerError::caused_by)?;
        let replies = completions.into_iter().filter_map(|(id, completion)| {
            let game = self.games.remove(&id)?;
            Some(Reply { game, utterance: Ok(completion.text) })
        });
        Ok(self.unreadable.drain(..).chain(replies).collect())
    }
}
