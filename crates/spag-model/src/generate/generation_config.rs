//! Generation settings of requests.

use std::ops::Range;
use std::sync::Arc;

use super::grammar::SharedGrammar;
use super::logit_rules::LogitRules;
use super::reasoning::{self, ReasoningBudget};
use crate::error::RequestError;
use crate::tokenizer::SpecialTokens;
#[cfg(doc)]
use crate::tokenizer::Tokenizer;
use spag_ops::sample::{Distribution, MAX_TOP, Sampling};

/// Generation settings of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerationConfig {
    /// Maximum number of generated tokens, after reasoning. 0 to only score the prompt.
    pub max_new_tokens: usize,
    /// Reasoning that may come first.
    pub reasoning: Option<ReasoningBudget>,
    /// Tokens that would end the completion are banned before this many tokens.
    pub min_new_tokens: usize,
    /// The sampling strategy.
    pub sampling: Sampling,
    /// Logit adjustments applied before sampling.
    pub rules: LogitRules,
    /// Constrains the completion. EOS and stop tokens are allowed where the grammar may end.
    pub grammar: Option<SharedGrammar>,
    /// Tokens that end a completion, in addition to EOS.
    pub stop_tokens: Vec<u32>,
    /// Strings that end a completion. The text ends before the first occurrence.
    pub stop_strings: Vec<String>,
    /// Whether EOS ends a completion.
    pub eos: EosRule,
    /// Handling of prompts that are too long.
    pub overflow: Overflow,
    /// Handling of special tokens in the text of a prompt.
    pub special_tokens: SpecialTokens,
    /// How the text is decoded. Stop strings are searched in this text.
    pub text: CompletionText,
    /// Additional log-probabilities to report.
    pub log_probs: LogProbs,
    /// What is reported before the completion.
    pub stream: Streamed,
    /// The adapter applied to the model.
    pub adapter: AdapterChoice,
}

impl Default for GenerationConfig {
    /// Up to 256 greedy tokens, as in the paper's evaluation.
    fn default() -> Self {
        Self {
            max_new_tokens: 256,
            reasoning: None,
            min_new_tokens: 0,
            sampling: Sampling::Greedy,
            rules: LogitRules::default(),
            grammar: None,
            stop_tokens: Vec::new(),
            stop_strings: Vec::new(),
            eos: EosRule::default(),
            overflow: Overflow::default(),
            special_tokens: SpecialTokens::default(),
            text: CompletionText::default(),
            log_probs: LogProbs::default(),
            stream: Streamed::default(),
            adapter: AdapterChoice::default(),
        }
    }
}

impl GenerationConfig {
    /// The sampling distribution after `generated` tokens. `eos` are the model's end-of-text tokens.
    pub fn distribution(&self, generated: usize, eos: &[u32]) -> Distribution {
        let eos = if self.eos == EosRule::Ends { eos } else { &[] };
        let banned = match generated < self.min_new_tokens {
            true => eos.iter().chain(&self.stop_tokens).copied().collect(),
            false => Default::default(),
        };
        Distribution { sampling: self.sampling, banned }
    }

    /// Validates the settings.
    ///
    /// # Errors
    /// [`RequestError::Setting`] naming the setting.
    pub fn check(&self) -> Result<(), RequestError> {
        let wrong = |what: String| Err(RequestError::Setting(what));
        self.sampling.check().map_err(|e| match e {
            spag_ops::Error::Sampling(what) => RequestError::Setting(what),
            other => RequestError::Setting(other.to_string()),
        })?;
        self.rules.check().map_err(RequestError::Setting)?;
        if self.grammar.is_some() && (self.min_new_tokens > 0 || self.eos == EosRule::Ignored) {
            return wrong(
                "a completion that is held to a grammar ends with it: neither min_new_tokens nor ignored EOS".into(),
            );
        }
        if let Some(budget) = &self.reasoning {
            reasoning::check(budget)?;
        }
        if self.max_new_tokens == 0 && self.log_probs.prompt.is_none() {
            return wrong(
                "max_new_tokens must be at least 1, or log-probabilities of the prompt must be asked for".into(),
            );
        }
        if self.stop_strings.iter().any(String::is_empty) {
            return wrong("a stop string is empty; it would end every completion at once".into());
        }
        if self.log_probs.top > LogProbs::MAX_TOP {
            let (top, most) = (self.log_probs.top, LogProbs::MAX_TOP);
            return wrong(format!("log-probabilities of {top} tokens a position are too many; ask for {most} at most"));
        }
        Ok(())
    }
}

/// Whether EOS ends a completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EosRule {
    /// EOS ends the completion.
    #[default]
    Ends,
    /// EOS is an ordinary token with empty text.
    Ignored,
}

/// How the text of a completion is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompletionText {
    /// From the tokens of the completion. LLaMA tokenizers then drop a leading blank.
    #[default]
    Alone,
    /// From prompt and completion together, as in the reference: the prompt's text is removed, and the rest ends before
    /// the first EOS, even if spelled by ordinary tokens. See [`Tokenizer::decode_after`]. The text is final only at the
    /// end, because the prompt's text is removed wherever it occurs: the last token reports all of it.
    AfterPrompt,
    /// The text that the completion adds to the prompt's. A leading blank is kept.
    Continued,
}

/// The adapter of an engine that a request uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum AdapterChoice {
    /// The engine's own adapter, from its last [`refresh`](super::Engine::refresh), if any.
    #[default]
    Own,
    /// No adapter: the base model.
    Base,
    /// An adapter added with [`Engine::add_adapter`](super::Engine::add_adapter).
    Named(Arc<str>),
}

impl AdapterChoice {
    /// The adapter with a name.
    pub fn named(name: &str) -> Self {
        Self::Named(name.into())
    }
}

/// Handling of a prompt that leaves no room for `max_new_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The prompt is truncated on the left.
    #[default]
    TruncateLeft,
    /// The request is refused.
    Refuse,
}

/// What is reported of a request before its completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streamed {
    /// Nothing: the only event is the last one. Adds no cost during generation.
    #[default]
    No,
    /// The log-probabilities of the prompt, if requested, and each token with its final text.
    Text,
}

/// Log-probabilities of a request, under softmax of the unmodified logits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogProbs {
    /// The prompt positions whose log-probabilities are reported.
    pub prompt: Option<PromptRange>,
    /// Number of most likely tokens reported at each position, generated or of the prompt, in addition to the token
    /// itself. From 0 to [`LogProbs::MAX_TOP`].
    pub top: usize,
}

impl LogProbs {
    /// Maximum of [`LogProbs::top`].
    pub const MAX_TOP: usize = MAX_TOP;
}

/// Positions of a prompt after truncation. BOS, if there is one, is at position 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptRange {
    /// All.
    All,
    /// A range, clipped to the prompt.
    Positions(Range<usize>),
}

impl PromptRange {
    /// The positions of a prompt of `length` tokens.
    pub(super) fn within(&self, length: usize) -> Range<usize> {
        match self {
            Self::All => 0..length,
            Self::Positions(range) => range.start.min(length)..range.end.clamp(range.start.min(length), length),
        }
    }
}
