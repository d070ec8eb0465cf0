//! The generation engine: schedules sequences, runs the model and samples tokens.

use std::collections::VecDeque;
use std::time::Instant;

use super::adapters::Adapters;
use super::completion::RequestId;
use super::config::{EngineConfig, Weights};
use super::event::Event;
use super::generation_config::{GenerationConfig, Overflow};
use super::kv::KvCache;
use super::model_runner::ModelRunner;
use super::request::{Generate, Prompt, Request};
use super::sequence::Sequence;
use super::stats::GenerationStats;
use super::weight_state::WeightState;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, RequestError, Result};
use crate::model::LengthClasses;
use crate::tokenizer::Tokenizer;
use spag_ops::kernels;

/// A generation engine with continuous batching and a paged KV cache.
///
/// Requests join and leave the batch at every step. The KV cache has a fixed size: if no page is free, the youngest
/// request is preempted and recomputed later. Tokens and log-probabilities of a request do not depend on the rest of
/// the batch, on chunking, preemption or cache hits; on a CPU they are bit-identical.
///
/// ```no_run
/// use std::sync::Arc;
/// use spag_model::generate::MemoryBudget;
/// use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, Request};
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
    pub(super) tokenizer: Tokenizer,
    pub(super) runner: ModelRunner,
    pub(super) config: EngineConfig,
    pub(super) state: State,
    pub(super) weights: WeightState,
    pub(super) adapters: Adapters,
}

/// Current load of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineLoad {
    /// Requests that wait for their first step or were preempted.
    pub waiting: usize,
    /// Requests in the batch.
    pub running: usize,
    /// KV cache pages used by running requests. Other pages may hold cached prefixes, which are evicted when pages are
    /// needed.
    pub pages_in_use: usize,
    /// Pages of the KV cache.
    pub pages: usize,
}

/// The scheduler's state.
pub(super) struct State {
    pub(super) cache: KvCache,
    /// Not started or preempted, in admission order.
    pub(super) waiting: VecDeque<Sequence>,
    /// In admission order.
    pub(super) running: Vec<Sequence>,
    pub(super) stats: GenerationStats,
    pub(super) lengths: LengthClasses,
    next_id: u64,
}

impl Engine {
    /// Creates an engine from a shared checkpoint. On a CPU it packs its own copy of the weights.
    ///
    /// # Errors
    /// Settings that the model does not support, or out of memory.
    pub fn new(checkpoint: &Checkpoint, config: EngineConfig) -> Result<Self> {
        Self::with(checkpoint.clone(), config, Weights::Copied)
    }

    /// Creates an engine from a checkpoint, which it takes. On a CPU the weights are packed layer by layer, in place if
    /// the checkpoint has no clone. Tensors taken from the checkpoint's parameters must not be used afterwards: they
    /// become empty.
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
        let runner = ModelRunner::new(model, config.sum_order)?;
        let state = State {
            cache: KvCache::new(&model_config, &config, runner.cache_dtype(), runner.device())?,
            waiting: VecDeque::new(),
            running: Vec::new(),
            stats: GenerationStats::default(),
            lengths: runner.lengths(),
            next_id: 0,
        };
        let (weights, adapters) = (WeightState::default(), Adapters::default());
        Ok(Self { tokenizer, runner, config, state, weights, adapters })
    }

    /// The engine's limits.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The checkpoint's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The engine's current load.
    pub fn load(&self) -> EngineLoad {
        let State { cache, waiting, running, .. } = &self.state;
        let pages = self.config.pages;
        EngineLoad {
            waiting: waiting.len(),
            running: running.len(),
            pages_in_use: pages.saturating_sub(cache.available()),
            pages,
        }
    }

    /// Why decoding passes on a GPU run eagerly, which is slower: the failure of a CUDA graph capture since the last
    /// refresh, if any.
    pub fn capture_failure(&self) -> Option<String> {
        self.runner.capture_failure()
    }

    /// The tokens of a prompt.
    fn encode(&self, prompt: Prompt, config: &GenerationConfig) -> Result<Vec<u32>, RequestError> {
        let tokens = match prompt {
            Prompt::Text(text) => self.tokenizer.encode_prompt(&text, config.special_tokens).map_err(Error::of_text)?,
            Prompt::Tokens(tokens) => tokens,
        };
        let vocabulary = self.runner.vocabulary();
        match tokens.iter().position(|token| *token as usize >= vocabulary) {
            Some(position) => Err(RequestError::UnknownToken { token: tokens[position], position, vocabulary }),
            None if tokens.is_empty() => Err(RequestError::EmptyPrompt),
            None => Ok(tokens),
        }
    }
}

impl State {
    pub(super) fn take_running(&mut self, id: RequestId) -> Option<Sequence> {
        let at = self.running.iter().position(|sequence| sequence.id == id)?;
        Some(self.running.remove(at))
    }
}

impl Generate for Engine {
    fn submit(&mut self, request: Request) -> Result<RequestId, RequestError> {
        let began = Instant::now();
        let Request { prompt, seed, config } = request;
        config.check()?;
        let vocabulary = self.runner.vocabulary();
        if let Some((token, _)) = config.rules.bias.range(u32::try_from(vocabulary).unwrap_or(u32::MAX)..).next() {
            let problem = format!("a bias is given for token {token}, but the model has {vocabulary} tokens");
            return Err(RequestError::Setting(problem));
        }
        let adapter = self.adapters.find(&config.adapter)?;
        let (max_new_tokens, max_length) = (config.max_completion_tokens(), self.config.max_length);
        let room = match max_length.saturating_sub(max_new_tokens) {
            0 => return Err(RequestError::NoRoom { max_new_tokens, max_length }),
            // The last token of a prompt that is only scored is a target, not an input.
            room if max_new_tokens == 0 => room.saturating_add(1),
            room => room,
        };
        let mut tokens = self.encode(prompt, &config)?;
        let truncated = tokens.len().saturating_sub(room);
        if truncated > 0 && config.overflow == Overflow::Refuse {
            return Err(RequestError::PromptTooLong { prompt: tokens.len(), max_new_tokens, max_length });
        }
        tokens.drain(..truncated);
        let id = RequestId(self.state.next_id);
        let mut sequence = Sequence::new(id, config, seed, tokens, truncated, &self.tokenizer);
        sequence.set_adapter(adapter);
        let needed = self.state.cache.pages_for(sequence.max_tokens());
        let EngineConfig { page_size, pages, .. } = self.config;
        if needed > pages {
            return Err(RequestError::TooFewPages {
                prompt: sequence.prompt,
                max_new_tokens,
                needed,
                page_size,
                pages,
            });
        }
        self.state.next_id += 1;
        self.state.stats.prompt_tokens += sequence.prompt as u64;
        self.state.stats.truncated_prompts += u64::from(truncated > 0);
        self.state.waiting.push_back(sequence);
        self.state.stats.times.tokenizer += began.elapsed();
        Ok(id)
    }

    fn step(&mut self) -> Result<Vec<(RequestId, Event)>> {
        if self.unfinished() == 0 {
            return Ok(Vec::new());
        }
        self.weights.check()?;
        // Engines on other threads may share the device.
        let kernels = kernels::of(self.runner.device())?;
        let _turn = kernels.as_ref().map(|kernels| kernels.turns().wait());
        self.pass()
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
