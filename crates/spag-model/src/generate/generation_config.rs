//! Settings of requests.

use std::ops::Range;
use std::sync::Arc;

use super::grammar::SharedGrammar;
use super::logit_rules::LogitRules;
use crate::error::RequestError;
use crate::tokenizer::SpecialTokens;
#[cfg(doc)]
use crate::tokenizer::Tokenizer;
use spag_ops::sample::{Distribution, MAX_TOP, Sampling};

/// Generation settings of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerationConfig {
    /// Maximum number of generated tokens. 0 if only log-probabilities of the prompt are asked for.
    pub max_new_tokens: usize,
    /// Tokens that would end a completion are banned before this many tokens.
    pub min_new_tokens: usize,
    /// The sampling strategy.
    pub sampling: Sampling,
    /// What changes the logits first.
    pub rules: LogitRules,
    /// What the completion is held to. Its token that ends a text, and the stop tokens, are chosen where the grammar may end.
    pub grammar: Option<SharedGrammar>,
    /// Tokens that end a completion, in addition to EOS.
    pub stop_tokens: Vec<u32>,
    /// Strings that end a completion. The text ends before the first occurrence.
    pub stop_strings: Vec<String>,
    /// Whether EOS ends a completion.
    pub eos: EosRule,
    /// What happens to a prompt that is too long.
    pub overflow: Overflow,
    /// What the texts of special tokens are in a prompt that is a text.
    pub special_tokens: SpecialTokens,
    /// What the text is decoded from. Stop strings are searched in this text.
    pub text: CompletionText,
    /// Log-probabilities beside those of the generated tokens.
    pub log_probs: LogProbs,
    /// What is reported before the completion.
    pub stream: Streamed,
    /// The adapter that the model runs with.
    pub adapter: AdapterChoice,
}

impl Default for GenerationConfig {
    /// Up to 256 greedy tokens, as in the paper's evaluation.
    fn default() -> Self {
        Self {
            max_new_tokens: 256,
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
    /// What the token after `generated` tokens is drawn from. `eos` are the model's tokens that end a text.
    pub fn distribution(&self, generated: usize, eos: &[u32]) -> Distribution {
        let eos = if self.eos == EosRule::Ends { eos } else { &[] };
        let banned = match generated < self.min_new_tokens {
            true => eos.iter().chain(&self.stop_tokens).copied().collect(),
            false => Default::default(),
        };
        Distribution { sampling: self.sampling, banned }
    }

    /// Rejects invalid settings.
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

/// Whether an EOS token ends a completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EosRule {
    /// It does.
    #[default]
    Ends,
    /// It is a token like any other, whose text is empty.
    Ignored,
}

/// What the text of a completion is decoded from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompletionText {
    /// The tokens of the completion. Tokenizers of LLaMA then drop a leading blank.
    #[default]
    Alone,
    /// Prompt and completion together, as in the reference: the text of the prompt is removed, and the rest ends before
    /// the first EOS, also if ordinary tokens spell it. See [`Tokenizer::decode_after`]. The text is certain only at the
    /// end, because the text of the prompt is removed wherever it occurs: the last token has all of it.
    AfterPrompt,
    /// What the completion adds to the text of the prompt. A leading blank is kept.
    Continued,
}

/// Which adapter of an engine a request runs with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum AdapterChoice {
    /// The engine's own: that of its last [`refresh`](super::Engine::refresh), or none.
    #[default]
    Own,
    /// None: the base model.
    Base,
    /// One that [`Engine::add_adapter`](super::Engine::add_adapter) named.
    Named(Arc<str>),
}

impl AdapterChoice {
    /// The adapter of a name.
    pub fn named(name: &str) -> Self {
        Self::Named(name.into())
    }
}

/// What happens to a prompt that leaves no room for `max_new_tokens`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// It loses its first tokens.
    #[default]
    TruncateLeft,
    /// The request is refused.
    Refuse,
}

/// What is reported of a request before its completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streamed {
    /// Nothing: the only event is the last one. Costs nothing while tokens are generated.
    #[default]
    No,
    /// Log-probabilities of the prompt if they are asked for, and each token with the text that became certain.
    Text,
}

/// Log-probabilities of a request, under softmax of the unmodified logits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogProbs {
    /// The tokens of the prompt whose log-probabilities are reported.
    pub prompt: Option<PromptRange>,
    /// The most likely tokens reported at each position, generated or of the prompt, beside the token there. From 0 to
    /// [`LogProbs::MAX_TOP`].
    pub top: usize,
}

impl LogProbs {
    /// The largest [`LogProbs::top`].
    pub const MAX_TOP: usize = MAX_TOP;
}

/// Positions of a prompt after truncation. BOS, if there is one, is at position 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptRange {
    /// All.
    All,
    /// These, as far as the prompt has them.
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
