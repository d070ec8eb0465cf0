//! A request on its way through the engine.

use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::config::GenerationConfig;
use super::detokenize::Detokenizer;
use super::kv::Cached;
use super::request::{Completion, FinishReason, RequestId};
use crate::error::Result;
use crate::ops::sample::{Ask, Choice};
use crate::tokenizer::Tokenizer;

/// Tokens of a prompt and its completion so far, and what there is of them in the cache.
pub(super) struct Sequence {
    pub(super) id: RequestId,
    pub(super) config: Arc<GenerationConfig>,
    rng: ChaCha8Rng,
    /// The prompt's tokens, then those chosen.
    pub(super) tokens: Vec<u32>,
    pub(super) prompt: usize,
    pub(super) cached: Cached,
    pub(super) preempted: bool,
    cut: usize,
    found: usize,
    model_log_probs: Vec<f32>,
    sampling_log_probs: Vec<f32>,
    text: Streamed,
}

/// The text so far, where stop strings ask for it.
#[derive(Default)]
struct Streamed {
    detokenizer: Detokenizer,
    text: String,
}

impl Sequence {
    pub(super) fn new(id: RequestId, config: Arc<GenerationConfig>, seed: u64, tokens: Vec<u32>, cut: usize) -> Self {
        Self {
            id,
            config,
            rng: ChaCha8Rng::seed_from_u64(seed),
            prompt: tokens.len(),
            tokens,
            cached: Cached::default(),
            preempted: false,
            cut,
            found: 0,
            model_log_probs: Vec::new(),
            sampling_log_probs: Vec::new(),
            text: Streamed::default(),
        }
    }

    /// Tokens whose keys and values are still to be computed; one while decoding.
    pub(super) fn pending(&self) -> usize {
        self.tokens.len() - self.cached.computed
    }

    /// Tokens at its longest.
    pub(super) fn most_tokens(&self) -> usize {
        self.prompt + self.config.max_new_tokens
    }

    /// Notes that `tokens` tokens were in the cache already. Returns how many of them count: what a sequence finds
    /// again after a preemption it had computed itself.
    pub(super) fn note_found(&mut self, tokens: usize) -> u64 {
        if self.preempted {
            return 0;
        }
        self.found += tokens;
        tokens as u64
    }

    /// How its next token is chosen; takes a number of its own where it is drawn.
    pub(super) fn ask(&mut self, eos: u32) -> Ask {
        let banned = match self.tokens.len() - self.prompt < self.config.min_new_tokens {
            true => std::iter::once(eos).chain(self.config.stop_tokens.iter().copied()).collect(),
            false => Vec::new(),
        };
        Ask { draw: self.config.sampling.next(&mut self.rng), banned }
    }

    /// Appends a chosen token; says whether the completion ends with it.
    pub(super) fn push(&mut self, choice: Choice, tokenizer: &Tokenizer) -> Result<Option<FinishReason>> {
        self.tokens.push(choice.token);
        self.model_log_probs.push(choice.model_log_prob);
        self.sampling_log_probs.push(choice.sampling_log_prob);
        if choice.token == tokenizer.eos() {
            return Ok(Some(FinishReason::Eos));
        }
        if self.config.stop_tokens.contains(&choice.token) {
            return Ok(Some(FinishReason::StopToken));
        }
        if !self.config.stop_strings.is_empty() {
            let new = self.text.detokenizer.push(tokenizer, choice.token)?;
            self.text.text.push_str(&new);
            if self.stop_at(&self.text.text).is_some() {
                return Ok(Some(FinishReason::StopString));
            }
        }
        Ok((self.tokens.len() - self.prompt >= self.config.max_new_tokens).then_some(FinishReason::Length))
    }

    /// Where the first stop string begins.
    fn stop_at(&self, text: &str) -> Option<usize> {
        self.config.stop_strings.iter().filter_map(|stop| text.find(stop.as_str())).min()
    }

    /// What came of it.
    pub(super) fn complete(self, finish: FinishReason, tokenizer: &Tokenizer) -> Result<Completion> {
        let token_ids = self.tokens[self.prompt..].to_vec();
        let said = match finish {
            FinishReason::Eos | FinishReason::StopToken => &token_ids[..token_ids.len().saturating_sub(1)],
            FinishReason::StopString | FinishReason::Length => &token_ids[..],
        };
        let mut text = tokenizer.decode(said)?;
        // What was held back to the end may hold a stop string too.
        let stop = self.stop_at(&text);
        if let Some(at) = stop {
            text.truncate(at);
        }
        Ok(Completion {
            token_ids,
            text,
            model_log_probs: self.model_log_probs,
            sampling_log_probs: self.sampling_log_probs,
            finish: if stop.is_some() { FinishReason::StopString } else { finish },
            prompt_tokens: self.prompt,
            truncated_tokens: self.cut,
            cached_tokens: self.found,
        })
    }
}
