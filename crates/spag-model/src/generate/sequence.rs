//! The state of a request in the engine.

use std::sync::Arc;

use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::config::GenerationConfig;
use super::kv::PageTable;
use super::request::{Completion, FinishReason, RequestId};
use super::text::{self, StreamedText};
use crate::error::Result;
use crate::ops::sample::{SampleParams, SampledToken, Sampling};
use crate::tokenizer::Tokenizer;

/// A request's tokens, its page table and its sampled log-probabilities.
pub(super) struct Sequence {
    pub(super) id: RequestId,
    pub(super) config: Arc<GenerationConfig>,
    rng: ChaCha8Rng,
    /// Prompt tokens followed by sampled tokens.
    pub(super) tokens: Vec<u32>,
    pub(super) prompt: usize,
    pub(super) table: PageTable,
    pub(super) preempted: bool,
    truncated: usize,
    cached_tokens: usize,
    model_log_probs: Vec<f32>,
    sampling_log_probs: Vec<f32>,
    text: StreamedText,
}

impl Sequence {
    pub(super) fn new(
        id: RequestId,
        config: Arc<GenerationConfig>,
        seed: u64,
        tokens: Vec<u32>,
        truncated: usize,
    ) -> Self {
        let text = StreamedText::new(&config, &tokens);
        Self {
            id,
            config,
            rng: ChaCha8Rng::seed_from_u64(seed),
            prompt: tokens.len(),
            tokens,
            table: PageTable::default(),
            preempted: false,
            truncated,
            cached_tokens: 0,
            model_log_probs: Vec::new(),
            sampling_log_probs: Vec::new(),
            text,
        }
    }

    /// Number of tokens not yet computed; 1 while decoding.
    pub(super) fn uncomputed(&self) -> usize {
        self.tokens.len() - self.table.computed
    }

    /// Maximum number of tokens.
    pub(super) fn max_tokens(&self) -> usize {
        self.prompt + self.config.max_new_tokens
    }

    /// Records `tokens` cached tokens and returns how many count as a hit. After a preemption none do: the sequence
    /// computed them itself.
    pub(super) fn record_cache_hit(&mut self, tokens: usize) -> u64 {
        if self.preempted {
            return 0;
        }
        self.cached_tokens += tokens;
        tokens as u64
    }

    /// Sampling parameters of the next token.
    pub(super) fn sampling_params(&mut self, eos: &[u32]) -> SampleParams {
        let banned = if self.tokens.len() - self.prompt < self.config.min_new_tokens {
            eos.iter().chain(&self.config.stop_tokens).copied().collect()
        } else {
            Vec::new()
        };
        let sampling = self.config.sampling;
        let uniform = if sampling == Sampling::Greedy { 0.0 } else { self.rng.random() };
        SampleParams { sampling, uniform, banned }
    }

    /// Appends a sampled token. Returns why the completion ends, if it does.
    pub(super) fn push(&mut self, choice: SampledToken, tokenizer: &Tokenizer) -> Result<Option<FinishReason>> {
        self.tokens.push(choice.token);
        self.model_log_probs.push(choice.model_log_prob);
        self.sampling_log_probs.push(choice.sampling_log_prob);
        if tokenizer.eos_ids().contains(&choice.token) {
            return Ok(Some(FinishReason::Eos));
        }
        if self.config.stop_tokens.contains(&choice.token) {
            return Ok(Some(FinishReason::StopToken));
        }
        let completion = &self.tokens[self.prompt..];
        if self.text.push(&self.config, tokenizer, completion)? {
            return Ok(Some(FinishReason::StopString));
        }
        Ok((completion.len() >= self.config.max_new_tokens).then_some(FinishReason::Length))
    }

    /// Builds the completion.
    pub(super) fn complete(self, finish: FinishReason, tokenizer: &Tokenizer) -> Result<Completion> {
        let token_ids = self.tokens[self.prompt..].to_vec();
        let tokens = match finish {
            FinishReason::Eos | FinishReason::StopToken => &token_ids[..token_ids.len().saturating_sub(1)],
            FinishReason::StopString | FinishReason::Length => &token_ids[..],
        };
        // Text held back by the detokenizer may contain a stop string too.
        let (text, stopped) = text::decode(&self.config, tokenizer, &self.tokens[..self.prompt], tokens)?;
        Ok(Completion {
            token_ids,
            text,
            model_log_probs: self.model_log_probs,
            sampling_log_probs: self.sampling_log_probs,
            finish: if stopped { FinishReason::StopString } else { finish },
            prompt_tokens: self.prompt,
            truncated_tokens: self.truncated,
            cached_tokens: self.cached_tokens,
        })
    }
}
