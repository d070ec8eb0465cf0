//! The engine: keeps a batch of sequences running, prefill and decode side by side.

use std::collections::VecDeque;
use std::sync::Arc;

use candle_core::Tensor;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::cache::Cache;
use super::sample::{Sampling, choose};
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::llama::{BlockWeights, mlp_forward, qkv_forward};
use crate::ops::attention::Heads;
use crate::ops::cached_attention::{self, CachedRow};
use crate::ops::matmul::linear_invariant;
use crate::ops::{cpu, embedding, rms_norm};

/// Settings that all requests of a generator share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GenerationConfig {
    /// A completion ends after this many tokens at the latest.
    pub max_new_tokens: usize,
    /// EOS is not chosen before this many tokens are out.
    pub min_new_tokens: usize,
    /// Prompt and completion together; longer prompts lose tokens on the left, as in the reference.
    pub max_length: usize,
    /// How tokens are chosen.
    pub sampling: Sampling,
}

/// A prompt to complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The text; BOS is put before its tokens.
    pub prompt: String,
    /// Seed of every draw of this request: its tokens do not depend on the rest of the batch.
    pub seed: u64,
}

/// A completed prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The new tokens, without EOS.
    pub token_ids: Vec<u32>,
    /// Their text.
    pub text: String,
    /// Tokens of the prompt that was read, BOS included.
    pub prompt_tokens: usize,
    /// Tokens that were cut off the left of the prompt.
    pub cut_tokens: usize,
}

/// What a generator has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationStats {
    /// Prompt tokens asked for.
    pub prompt_tokens: u64,
    /// Prompt tokens found in the cache.
    pub reused_tokens: u64,
    /// New tokens.
    pub new_tokens: u64,
    /// Forward passes.
    pub steps: u64,
}

/// Prompt tokens that one forward pass may hold beside the decoding sequences; bounds the memory of a step.
const PREFILL_TOKENS: usize = 4096;

/// A model ready to generate: its weights, and a cache for a number of sequences at a time.
///
/// A slot keeps its tokens after a request ends, so that a later prompt that begins alike (the same game, one turn on)
/// computes only what is new.
pub struct Generator {
    checkpoint: Arc<Checkpoint>,
    config: GenerationConfig,
    blocks: Vec<BlockWeights>,
    norm: Tensor,
    head: Tensor,
    embedding: Tensor,
    cache: Cache,
    stats: GenerationStats,
}

/// A request that holds a slot.
struct Running {
    request: usize,
    slot: usize,
    /// Tokens not yet in the cache: the rest of the prompt, then the last token chosen.
    pending: Vec<u32>,
    output: Vec<u32>,
    rng: ChaCha8Rng,
}

impl Generator {
    /// A generator with room for `slots` sequences at a time.
    ///
    /// # Errors
    /// Settings that leave no room for a prompt, exceed the model's positions or make no distribution.
    pub fn new(checkpoint: Arc<Checkpoint>, config: GenerationConfig, slots: usize) -> Result<Self> {
        let model = &checkpoint.model;
        let limit = model.config().max_position_embeddings;
        let wrong = |why: String| Err(Error::Generation(why));
        config.sampling.check()?;
        if slots == 0 || config.max_new_tokens == 0 {
            return wrong("at least one sequence and one new token are needed".into());
        }
        if config.max_new_tokens >= config.max_length {
            return wrong(format!(
                "max_new_tokens {} leaves no room for a prompt in max_length {}",
                config.max_new_tokens, config.max_length
            ));
        }
        if config.max_length > limit {
            return wrong(format!(
                "max_length {} exceeds the model's max_position_embeddings {limit}; lower it",
                config.max_length
            ));
        }
        let parameters = model.parameters();
        let blocks = (0..model.config().num_hidden_layers)
            .map(|i| BlockWeights::of(parameters, i))
            .collect::<Result<Vec<_>>>()?;
        let (norm, head) = (model.final_norm(parameters)?, model.head(parameters)?);
        let embedding = parameters.view(0, 0)?;
        let cache = Cache::new(model.config(), slots, config.max_length)?;
        Ok(Self { config, blocks, norm, head, embedding, cache, stats: GenerationStats::default(), checkpoint })
    }

    /// What has been done so far.
    pub fn stats(&self) -> GenerationStats {
        self.stats
    }

    /// Completes every request; the answers come in the order of the requests.
    ///
    /// # Errors
    /// Text that the tokenizer refuses, or a model whose logits are not finite.
    pub fn generate(&mut self, requests: &[Request]) -> Result<Vec<Completion>> {
        let checkpoint = self.checkpoint.clone();
        let tokenizer = &checkpoint.tokenizer;
        let room = self.config.max_length - self.config.max_new_tokens;
        let mut prompts = Vec::with_capacity(requests.len());
        for encoded in requests.par_iter().map(|r| tokenizer.encode(&r.prompt)).collect::<Vec<_>>() {
            let mut ids = vec![tokenizer.bos()];
            ids.append(&mut encoded?);
            let cut = ids.len().saturating_sub(room);
            prompts.push((ids.split_off(cut), cut));
        }
        let mut waiting: VecDeque<usize> = (0..requests.len()).collect();
        let mut running: Vec<Running> = Vec::new();
        let mut done: Vec<Option<Completion>> = vec![None; requests.len()];
        while !(waiting.is_empty() && running.is_empty()) {
            let mut prefill: usize = running.iter().map(|r| r.pending.len()).sum();
            while let Some(&request) = waiting.front() {
                let (prompt, _) = &prompts[request];
                if prefill > PREFILL_TOKENS {
                    break;
                }
                let Some((slot, kept)) = self.cache.acquire(prompt) else { break };
                waiting.pop_front();
                self.stats.prompt_tokens += prompt.len() as u64;
                self.stats.reused_tokens += kept as u64;
                prefill += prompt.len() - kept;
                let rng = ChaCha8Rng::seed_from_u64(requests[request].seed);
                running.push(Running { request, slot, pending: prompt[kept..].to_vec(), output: Vec::new(), rng });
            }
            let logits = self.step(&mut running)?;
            for index in self.advance(&mut running, &logits)?.into_iter().rev() {
                let ended = running.swap_remove(index);
                self.cache.release(ended.slot);
                self.stats.new_tokens += ended.output.len() as u64;
                let text = tokenizer.decode(&ended.output)?;
                let (prompt, cut) = &prompts[ended.request];
                done[ended.request] =
                    Some(Completion { token_ids: ended.output, text, prompt_tokens: prompt.len(), cut_tokens: *cut });
            }
        }
        done.into_iter().map(|c| c.ok_or_else(|| Error::Generation("a request was lost".into()))).collect()
    }

    /// Computes the pending tokens of every running sequence; returns the logits after each one's last, [R, V].
    fn step(&mut self, running: &mut [Running]) -> Result<Tensor> {
        let model = &self.checkpoint.model;
        let heads = Heads {
            query: model.config().num_attention_heads,
            kv: model.config().kv_heads(),
            dim: model.config().head_dim(),
        };
        let eps = model.config().rms_norm_eps as f32;
        let (mut ids, mut places, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for sequence in running.iter_mut() {
            let start = self.cache.start(sequence.slot);
            let tokens = &mut self.cache.slots[sequence.slot].tokens;
            for token in sequence.pending.drain(..) {
                places.push(CachedRow { start, position: tokens.len() });
                tokens.push(token);
                ids.push(token);
            }
            last.push(ids.len() as u32 - 1);
        }
        let positions: Vec<u32> = places.iter().map(|p| p.position as u32).collect();
        let mut x = embedding::forward(&ids, &self.embedding)?;
        for (layer, w) in self.blocks.iter().enumerate() {
            let normed = rms_norm::forward(&x, &w.input_norm, eps)?;
            let (q, k, v) = qkv_forward(&normed, w, &positions, model.rope(), linear_invariant)?;
            let (keys, values) = (&self.cache.keys[layer], &self.cache.values[layer]);
            cached_attention::append(keys, &k, &places)?;
            cached_attention::append(values, &v, &places)?;
            let attended = cached_attention::forward(&q, keys, values, &places, heads)?;
            x = (x + linear_invariant(&attended, &w.o)?)?;
            let normed = rms_norm::forward(&x, &w.post_norm, eps)?;
            x = (x + mlp_forward(&normed, w, linear_invariant)?)?;
        }
        let normed = rms_norm::forward(&embedding::forward(&last, &x)?, &self.norm, eps)?;
        self.stats.steps += 1;
        Ok(linear_invariant(&normed, &self.head)?)
    }

    /// Chooses a token for every running sequence; returns the indices of those that ended, in rising order.
    fn advance(&self, running: &mut [Running], logits: &Tensor) -> Result<Vec<usize>> {
        let (eos, config) = (self.checkpoint.tokenizer.eos(), self.config);
        let chosen: Vec<Result<u32>> = cpu::read(logits, |logits| {
            let width = logits.len() / running.len().max(1);
            Ok(running
                .par_iter_mut()
                .zip(logits.par_chunks_exact(width))
                .map(|(sequence, row)| {
                    let banned = (sequence.output.len() < config.min_new_tokens).then_some(eos);
                    choose(row, config.sampling, banned, &mut sequence.rng)
                })
                .collect())
        })?;
        let mut ended = Vec::new();
        for (index, (sequence, token)) in running.iter_mut().zip(chosen).enumerate() {
            let token = token?;
            if token == eos {
                ended.push(index);
                continue;
            }
            sequence.output.push(token);
            sequence.pending.push(token);
            if sequence.output.len() >= config.max_new_tokens {
                ended.push(index);
            }
        }
        Ok(ended)
    }
}
