//! Requests of `/v1/completions`.

use std::sync::Arc;

use spag_model::generate::{CompletionText, LogProbs, Overflow, Prompt, PromptRange, Streamed};
use spag_model::{GenerationConfig, Request};

use super::error::ApiError;
use super::fields::{Fields, Refused, whole};
use super::prompts::{Bos, PromptInput, prompts};
use super::sampling::{Delivery, IGNORED, Settings, is_empty};
use crate::limits::{MAX_SEQUENCES, MAX_TOP};
use crate::model::ServedModel;

/// Default `max_tokens`, as in OpenAI's API.
const DEFAULT_TOKENS: usize = 16;

/// A request for completions.
#[derive(Debug)]
pub(crate) struct CompletionJob {
    pub(crate) prompts: Vec<PromptInput>,
    pub(crate) settings: Settings,
    pub(crate) max_tokens: usize,
    pub(crate) echo: Echo,
    /// Number of alternatives per token, if log-probabilities are requested.
    pub(crate) log_probs: Option<usize>,
}

/// Whether the answer includes the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    Prompt,
    Nothing,
}

impl CompletionJob {
    /// Parses a request for a model.
    pub(crate) fn read(mut fields: Fields, model: &ServedModel) -> Result<Self, ApiError> {
        fields.refuse(&[Refused::new("suffix", is_empty, "the model continues text, it does not fill gaps")])?;
        let settings = Settings::read(&mut fields, model)?;
        let best_of = fields.take("best_of");
        if best_of.is_some_and(|best_of| whole(&best_of) != Some(settings.n)) {
            return Err(ApiError::unsupported("best_of", "leave it out or set it to n"));
        }
        let bos = if fields.truth("add_special_tokens")? == Some(false) { Bos::Left } else { Bos::Added };
        let echo = if fields.truth("echo")? == Some(true) { Echo::Prompt } else { Echo::Nothing };
        let max_tokens = fields.whole("max_tokens", 0..=usize::MAX >> 1)?.unwrap_or(DEFAULT_TOKENS);
        let log_probs = fields.whole("logprobs", 0..=MAX_TOP)?;
        let prompts = prompts(fields.take("prompt"), bos, model)?;
        fields.finish(&IGNORED)?;
        let job = Self { prompts, settings, max_tokens, echo, log_probs };
        job.check(model)?;
        Ok(job)
    }

    fn check(&self, model: &ServedModel) -> Result<(), ApiError> {
        let Settings { n, min_tokens, .. } = self.settings;
        if self.max_tokens == 0 && self.echo == Echo::Nothing {
            return Err(ApiError::field("max_tokens", "0 is allowed only with \"echo\": true"));
        }
        if min_tokens > self.max_tokens {
            let problem = format!("{min_tokens} is more than max_tokens, {}", self.max_tokens);
            return Err(ApiError::field("min_tokens", problem));
        }
        check_sequences(self.prompts.len(), n, model)?;
        self.prompts.iter().try_for_each(|prompt| check_length(prompt.tokens.len(), self.max_tokens, model))
    }

    /// Whether the engine has nothing to compute, because the prompt is echoed without log-probabilities.
    pub(crate) fn is_echo_only(&self) -> bool {
        self.max_tokens == 0 && self.log_probs.is_none()
    }

    /// The engine requests: `n` per prompt.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let scored = self.echo == Echo::Prompt && self.log_probs.is_some();
        let log_probs = LogProbs { prompt: scored.then_some(PromptRange::All), top: self.log_probs.unwrap_or(0) };
        let text = CompletionText::Continued;
        let config = Arc::new(GenerationConfig { log_probs, ..generation(&self.settings, self.max_tokens, text) });
        let sequences = self.prompts.iter().flat_map(|prompt| (0..self.settings.n).map(move |at| (prompt, at)));
        let request = |(prompt, at): (&PromptInput, usize)| Request {
            prompt: Prompt::Tokens(prompt.tokens.clone()),
            seed: self.settings.seed_of(at),
            config: config.clone(),
        };
        sequences.map(request).collect()
    }
}

/// The generation settings of a request.
pub(super) fn generation(settings: &Settings, max_tokens: usize, text: CompletionText) -> GenerationConfig {
    GenerationConfig {
        max_new_tokens: max_tokens,
        min_new_tokens: settings.min_tokens,
        sampling: settings.sampling,
        rules: settings.rules.clone(),
        grammar: settings.grammar.clone(),
        stop_tokens: settings.stop_tokens.clone(),
        stop_strings: settings.stop_strings.clone(),
        eos: settings.eos,
        overflow: Overflow::Refuse,
        text,
        stream: if settings.delivery == Delivery::Whole { Streamed::No } else { Streamed::Text },
        ..GenerationConfig::default()
    }
}

/// Refuses a request with too many sequences.
pub(super) fn check_sequences(prompts: usize, n: usize, model: &ServedModel) -> Result<(), ApiError> {
    let most = MAX_SEQUENCES.min(model.engine.capacity);
    if prompts.saturating_mul(n) > most {
        let problem = format!(
            "{prompts} prompts with {n} completions each are more than {most} sequences, the most of a request"
        );
        return Err(ApiError::field(if n > 1 { "n" } else { "prompt" }, problem));
    }
    Ok(())
}

/// Refuses prompts that do not fit into the context. They are never truncated.
pub(super) fn check_length(prompt: usize, max_tokens: usize, model: &ServedModel) -> Result<(), ApiError> {
    let context = model.max_length;
    if prompt.saturating_add(max_tokens) > context {
        return Err(ApiError::too_long(context, prompt, max_tokens));
    }
    Ok(())
}
