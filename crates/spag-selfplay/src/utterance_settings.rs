//! How a model generates its utterances, by their kind.

use std::collections::HashMap;
use std::sync::Arc;

use spag_chat::{PromptEncoder, ReasoningSettings};
use spag_game::UtteranceRule;
use spag_io::{PromptEnd, PromptFormat, PromptText, ReasoningRule, TurnPrompt};
use spag_model::GenerationConfig;
use spag_model::generate::{AdapterChoice, CompletionText, Overflow, Streamed};

/// The settings of utterances, each kind made when it is first needed, since some depend on the model's template.
pub struct UtteranceSettings {
    config: GenerationConfig,
    /// Tokens of reasoning.
    reasoning_tokens: usize,
    made: HashMap<(UtteranceRule, ReasoningStart), Arc<GenerationConfig>>,
}

/// Whether a completion may begin with reasoning between tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReasoningStart {
    /// There are no tags, or the prompt has closed them already.
    Never,
    /// It may, after a prompt that ends so.
    After(PromptEnd),
}

impl ReasoningStart {
    /// After a prompt of this text.
    pub fn after(encoder: &PromptEncoder, text: &PromptText) -> Self {
        match encoder.reasoning() {
            ReasoningRule::Think(tags) if !text.text().trim_end().ends_with(tags.close()) => {
                Self::After(encoder.end_of_prompt(text))
            }
            ReasoningRule::None | ReasoningRule::Think(_) | ReasoningRule::Boxed => Self::Never,
        }
    }

    /// As [`ReasoningStart::after`], for an utterance that is held to a list: the opening tag is appended to the text, since a
    /// completion could begin with nothing but the list.
    ///
    /// # Errors
    /// As [`PromptEncoder::reasoning_form`].
    pub fn opened(encoder: &PromptEncoder, prompts: PromptFormat, text: &mut PromptText) -> spag_chat::Result<Self> {
        let start = Self::after(encoder, text);
        if let (Self::After(PromptEnd::Plain), Some(form)) = (start, encoder.reasoning_form(prompts)?) {
            text.push(&form.opening);
            return Ok(Self::After(PromptEnd::Opened));
        }
        Ok(start)
    }

    /// How the prompt ends.
    pub fn prompt_end(self) -> PromptEnd {
        match self {
            Self::Never => PromptEnd::Plain,
            Self::After(end) => end,
        }
    }
}

impl UtteranceSettings {
    /// Settings of a model whose prompts and completions have `max_length` tokens together.
    pub fn new(config: GenerationConfig, max_length: usize) -> Self {
        let reasoning_tokens = ReasoningSettings::default().tokens(max_length);
        let config = GenerationConfig { stream: Streamed::No, ..config };
        Self { config, reasoning_tokens, made: HashMap::new() }
    }

    /// The same settings with the budget of reasoning that is set, if one is.
    pub fn with_reasoning(self, reasoning: &ReasoningSettings) -> Self {
        let reasoning_tokens = reasoning.max_reasoning_tokens.unwrap_or(self.reasoning_tokens);
        Self { reasoning_tokens, made: HashMap::new(), ..self }
    }

    /// The same settings with an adapter.
    pub fn with_adapter(&self, adapter: AdapterChoice) -> Self {
        let config = GenerationConfig { adapter, ..self.config.clone() };
        Self { config, reasoning_tokens: self.reasoning_tokens, made: HashMap::new() }
    }

    /// The most tokens of a completion of a prompt.
    ///
    /// # Errors
    /// As [`UtteranceSettings::of`].
    pub fn longest(&self, encoder: &PromptEncoder, prompt: &TurnPrompt) -> spag_chat::Result<usize> {
        let rule = match prompt.format() {
            PromptFormat::Plain => UtteranceRule::Trimmed,
            PromptFormat::Chat => UtteranceRule::Message,
        };
        Ok(self.make(rule, encoder, ReasoningStart::After(PromptEnd::Plain))?.max_completion_tokens())
    }

    /// The settings of an utterance.
    ///
    /// # Errors
    /// It is one of a chat, and the model has no usable template.
    pub fn of(
        &mut self,
        rule: UtteranceRule,
        encoder: &PromptEncoder,
        start: ReasoningStart,
    ) -> spag_chat::Result<Arc<GenerationConfig>> {
        if let Some(made) = self.made.get(&(rule, start)) {
            return Ok(made.clone());
        }
        let made = Arc::new(self.make(rule, encoder, start)?);
        self.made.insert((rule, start), made.clone());
        Ok(made)
    }

    fn make(
        &self,
        rule: UtteranceRule,
        encoder: &PromptEncoder,
        start: ReasoningStart,
    ) -> spag_chat::Result<GenerationConfig> {
        let config = match rule {
            UtteranceRule::AsDecoded => GenerationConfig { text: CompletionText::AfterPrompt, ..self.config.clone() },
            UtteranceRule::Trimmed => GenerationConfig { text: CompletionText::Alone, ..self.config.clone() },
            UtteranceRule::Message => chat_settings(&self.config, encoder)?,
        };
        with_reasoning(config, encoder, (rule, start), self.reasoning_tokens)
    }
}

/// The settings of a completion that begins with at most `max_tokens` tokens of reasoning, if the model's rule has some.
fn with_reasoning(
    config: GenerationConfig,
    encoder: &PromptEncoder,
    (rule, start): (UtteranceRule, ReasoningStart),
    max_tokens: usize,
) -> spag_chat::Result<GenerationConfig> {
    match (encoder.reasoning(), start) {
        (ReasoningRule::Think(_), ReasoningStart::After(prompt)) => {
            let reasoning = encoder.reasoning_budget(rule.prompts(), prompt, max_tokens)?;
            Ok(GenerationConfig { reasoning, ..config })
        }
        // A box may be anywhere.
        (ReasoningRule::Boxed, ..) => {
            Ok(GenerationConfig { max_new_tokens: config.max_new_tokens.saturating_add(max_tokens), ..config })
        }
        _ => Ok(config),
    }
}

/// The settings of an answer in a chat: it ends with the token that ends a turn in the model's template. A chat that is too
/// long is refused, since its beginning has the rules.
///
/// # Errors
/// The model has no template that can be used.
fn chat_settings(config: &GenerationConfig, encoder: &PromptEncoder) -> spag_chat::Result<GenerationConfig> {
    let mut stop_tokens = config.stop_tokens.clone();
    stop_tokens.push(encoder.end_of_turn()?);
    Ok(GenerationConfig { text: CompletionText::Alone, overflow: Overflow::Refuse, stop_tokens, ..config.clone() })
}
