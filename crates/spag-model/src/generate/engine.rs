//! The generation engine: schedules sequences, runs the model and samples tokens.

use std::collections::VecDeque;
use std::time::Instant;

use candle_core::Tensor;

use super::config::{EngineConfig, Weights};
use super::kv::KvCache;
use super::model_runner::{ForwardOutput, ModelRunner};
use super::request::{Completion, FinishReason, Generate, Request, RequestId};
use super::schedule::{ScheduledChunk, schedule};
use super::sequence::Sequence;
use super::stats::GenerationStats;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::ops::paged_attention::Span;
use crate::ops::sample::{self, SampleError, SampleParams};
use crate::tokenizer::Tokenizer;

/// A generation engine with continuous batching and a paged KV cache.
///
/// Requests join and leave the batch at every step. The KV cache has a fixed size: if no page is free, the youngest
/// request is preempted and recomputed later. Tokens and log-probabilities of a request do not depend on the rest of
/// the batch, on chunking, preemption or cache hits; on a CPU bit by bit.
///
/// ```no_run
/// use std::sync::Arc;
/// use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, MemoryBudget, Request};
///
/// # fn main() -> spag_model::Result<()> {
/// let checkpoint = Checkpoint::load("checkpoints/im")?;
/// let config = EngineConfig::new(checkpoint.model.config(), 8, MemoryBudget::host());
/// let mut engine = Engine::from_checkpoint(checkpoint, config)?;
/// let config = Arc::new(GenerationConfig::default());
/// let request = Request { prompt: "Let us play.".into(), seed: 1, config };
/// println!("{}", engine.generate(vec![request])?[0].text);
/// # Ok(())
/// # }
/// ```
pub struct Engine {
    tokenizer: Tokenizer,
    runner: ModelRunner,
    config: EngineConfig,
    pub(super) state: State,
}

/// The scheduler's state.
pub(super) struct State {
    pub(super) cache: KvCache,
    /// Not started or preempted, in the order in which they are admitted.
    pub(super) waiting: VecDeque<Sequence>,
    /// Ordered by admission.
    pub(super) running: Vec<Sequence>,
    pub(super) stats: GenerationStats,
    next_id: u64,
}

impl Engine {
    /// Creates an engine with a checkpoint that others use too. On a CPU it packs its own copy of the weights.
    ///
    /// # Errors
    /// Settings that the model does not support, or too little memory for them.
    pub fn new(checkpoint: &Checkpoint, config: EngineConfig) -> Result<Self> {
        Self::with(checkpoint.clone(), config, Weights::Copied)
    }

    /// Creates an engine from a checkpoint. On a CPU the weights are packed layer by layer, and each layer is freed when it
    /// is packed, unless a clone of the checkpoint still has it.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn from_checkpoint(checkpoint: Checkpoint, config: EngineConfig) -> Result<Self> {
        Self::with(checkpoint, config, Weights::Taken)
    }

    fn with(checkpoint: Checkpoint, config: EngineConfig, weights: Weights) -> Result<Self> {
        let Checkpoint { model, tokenizer } = checkpoint;
        let model_config = model.config().clone();
        config.check(&model_config)?;
        config.check_memory(&model, weights)?;
        let runner = ModelRunner::new(model)?;
        let state = State {
            cache: KvCache::new(&model_config, &config, runner.dtype(), runner.device())?,
            waiting: VecDeque::new(),
            running: Vec::new(),
            stats: GenerationStats::default(),
            next_id: 0,
        };
        Ok(Self { tokenizer, runner, config, state })
    }

    /// The engine's limits.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The checkpoint's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Runs the forward pass over the scheduled chunks.
    fn forward(&mut self, chunks: &[ScheduledChunk]) -> Result<ForwardOutput> {
        let began = Instant::now();
        let State { cache, running, stats, .. } = &mut self.state;
        let (mut ids, mut spans, mut last) = (Vec::new(), Vec::new(), Vec::new());
        // (rows, attended keys) of prompts and of decoding.
        let (mut prompt, mut decode) = ((0usize, 0usize), (0usize, 0usize));
        for chunk in chunks {
            let sequence = &running[chunk.sequence];
            let first = ids.len();
            ids.extend_from_slice(&sequence.tokens[chunk.tokens.clone()]);
            let rows = first..ids.len();
            let kind = if chunk.tokens.start < sequence.prompt { &mut prompt } else { &mut decode };
            kind.0 += rows.len();
            kind.1 += chunk.tokens.clone().map(|position| position + 1).sum::<usize>();
            spans.push(Span { rows, position: chunk.tokens.start, pages: &sequence.table.pages });
            if chunk.tokens.end == sequence.tokens.len() {
                last.push(ids.len() as u32 - 1);
            }
        }
        let output = self.runner.forward(&ids, &spans, &last, cache)?;
        cache.mark_computed();
        let all = began.elapsed();
        stats.steps += 1;
        stats.computed_tokens += ids.len() as u64;
        stats.attended_keys += (prompt.1 + decode.1) as u64;
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let prefill = output.attention.mul_f64(share(prompt.1, prompt.1 + decode.1))
            + all.saturating_sub(output.attention).mul_f64(share(prompt.0, ids.len()));
        stats.times.prefill += prefill;
        stats.times.decode += all.saturating_sub(prefill);
        stats.times.attention += output.attention;
        Ok(output)
    }

    /// Samples a token for every sequence that is fully computed. Returns the sequences that ended.
    fn sample(&mut self, chunks: &[ScheduledChunk], logits: &Tensor) -> Result<Vec<(RequestId, FinishReason)>> {
        let began = Instant::now();
        let (running, eos) = (&mut self.state.running, self.tokenizer.eos_ids());
        let mut place = vec![None; running.len()];
        let ready = chunks.iter().filter(|chunk| chunk.tokens.end == running[chunk.sequence].tokens.len());
        for (row, chunk) in ready.enumerate() {
            place[chunk.sequence] = Some(row);
        }
        let mut ready: Vec<(usize, &mut Sequence)> =
            running.iter_mut().zip(&place).filter_map(|(sequence, row)| row.map(|row| (row, sequence))).collect();
        let mut params = vec![SampleParams::default(); ready.len()];
        for (row, sequence) in &mut ready {
            params[*row] = sequence.sampling_params(eos);
        }
        let chosen = sample::sample(logits, &params)?;
        let mut ended = Vec::new();
        for (row, sequence) in &mut ready {
            let choice = chosen[*row].map_err(|e| match e {
                SampleError::NotFinite => Error::LogitsNotFinite { path: self.tokenizer.folder().to_owned() },
                SampleError::NoneAllowed => Error::Generation(e.to_string()),
            })?;
            if let Some(finish) = sequence.push(choice, &self.tokenizer)? {
                ended.push((sequence.id, finish));
            }
        }
        self.state.stats.times.sampling += began.elapsed();
        Ok(ended)
    }

    /// Removes a finished sequence and returns its completion.
    fn finish(&mut self, id: RequestId, finish: FinishReason) -> Result<Option<(RequestId, Completion)>> {
        let Some(mut sequence) = self.state.take_running(id) else { return Ok(None) };
        self.state.cache.release(&mut sequence.table, &sequence.tokens);
        self.state.stats.requests += 1;
        self.state.stats.new_tokens += (sequence.tokens.len() - sequence.prompt) as u64;
        Ok(Some((id, sequence.complete(finish, &self.tokenizer)?)))
    }
}

impl State {
    fn take_running(&mut self, id: RequestId) -> Option<Sequence> {
        let at = self.running.iter().position(|sequence| sequence.id == id)?;
        Some(self.running.remove(at))
    }
}

impl Generate for Engine {
    fn submit(&mut self, request: Request) -> Result<RequestId> {
        let began = Instant::now();
        request.config.check()?;
        let Request { prompt, seed, config } = request;
        let room = self.config.max_length.saturating_sub(config.max_new_tokens);
        if room == 0 {
            return Err(Error::Generation(format!(
                "max_new_tokens {} leaves no room for a prompt in max_length {}",
                config.max_new_tokens, self.config.max_length
            )));
        }
        let mut tokens = self.tokenizer.encode_prompt(&prompt, config.special_tokens)?;
        let truncated = tokens.len().saturating_sub(room);
        tokens.drain(..truncated);
        let id = RequestId(self.state.next_id);
        let sequence = Sequence::new(id, config, seed, tokens, truncated);
        let needed = self.state.cache.pages_for(sequence.max_tokens());
        if needed > self.config.pages {
            return Err(Error::Generation(format!(
                "a prompt of {} tokens and {} new ones need {needed} pages of {} tokens, but the engine has {}; give it \
                 more memory or ask for fewer tokens",
                sequence.prompt, sequence.config.max_new_tokens, self.config.page_size, self.config.pages
            )));
        }
        self.state.next_id += 1;
        self.state.stats.prompt_tokens += sequence.prompt as u64;
        self.state.stats.truncated_prompts += u64::from(truncated > 0);
        self.state.waiting.push_back(sequence);
        self.state.stats.times.tokenizer += began.elapsed();
        Ok(id)
    }

    fn step(&mut self) -> Result<Vec<(RequestId, Completion)>> {
        if self.unfinished() == 0 {
            return Ok(Vec::new());
        }
        let began = Instant::now();
        let chunks = schedule(&mut self.state, &self.config)?;
        self.state.stats.times.schedule += began.elapsed();
        let output = self.forward(&chunks)?;
        let ended = match &output.logits {
            Some(logits) => self.sample(&chunks, logits)?,
            None => Vec::new(),
        };
        let began = Instant::now();
        let mut completions = Vec::with_capacity(ended.len());
        for (id, finish) in ended {
            completions.extend(self.finish(id, finish)?);
        }
        self.state.stats.times.tokenizer += began.elapsed();
        Ok(completions)
    }

    fn abort(&mut self, id: RequestId) {
        self.state.waiting.retain(|sequence| sequence.id != id);
        if let Some(mut sequence) = self.state.take_running(id) {
            self.state.cache.release(&mut sequence.table, &sequence.tokens);
        }
    }

    fn unfinished(&self) -> usize {
        self.state.waiting.len() + self.state.running.len()
    }

    fn stats(&self) -> GenerationStats {
        self.state.stats
    }
}
