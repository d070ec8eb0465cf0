//! The engine: keeps a batch of sequences running, chunks of prompts beside newest tokens.

use std::collections::VecDeque;
use std::time::Instant;

use candle_core::Tensor;

use super::config::EngineConfig;
use super::kv::KvCache;
use super::request::{Completion, FinishReason, Generate, Request, RequestId};
use super::schedule::{Chunk, plan};
use super::sequence::Sequence;
use super::stats::GenerationStats;
use super::weights::{Passed, Weights};
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::ops::paged_attention::Span;
use crate::ops::sample::{self, Ask};
use crate::tokenizer::Tokenizer;

/// A model ready to generate: continuous batching over paged keys and values.
///
/// Requests join and leave the running batch at every step. Memory is fixed: a request that finds no page preempts the
/// youngest, whose tokens are computed again later. A request's tokens and log-probabilities do not depend on what else
/// runs, on chunks, on preemptions, or on what was found in the cache: bit by bit on a CPU.
///
/// ```no_run
/// use std::sync::Arc;
/// use spag_model::{Checkpoint, Engine, EngineConfig, Generate, GenerationConfig, MemoryBudget, Request};
///
/// # fn main() -> spag_model::Result<()> {
/// let checkpoint = Checkpoint::load("checkpoints/im")?;
/// let config = EngineConfig::new(checkpoint.model.config(), 8, MemoryBudget::host());
/// let mut engine = Engine::new(&checkpoint, config)?;
/// let config = Arc::new(GenerationConfig::default());
/// let request = Request { prompt: "Let us play.".into(), seed: 1, config };
/// println!("{}", engine.generate(vec![request])?[0].text);
/// # Ok(())
/// # }
/// ```
pub struct Engine {
    tokenizer: Tokenizer,
    weights: Weights,
    config: EngineConfig,
    pub(super) state: State,
}

/// What changes from step to step.
pub(super) struct State {
    pub(super) cache: KvCache,
    /// Not begun, or preempted; the first comes next.
    pub(super) waiting: VecDeque<Sequence>,
    /// In the order in which they were admitted.
    pub(super) running: Vec<Sequence>,
    pub(super) stats: GenerationStats,
    next_id: u64,
}

impl Engine {
    /// An engine for a checkpoint, whose weights it packs for itself: the checkpoint may be dropped.
    ///
    /// # Errors
    /// Settings that do not fit the model.
    pub fn new(checkpoint: &Checkpoint, config: EngineConfig) -> Result<Self> {
        let model = checkpoint.model.config();
        config.check(model)?;
        let weights = Weights::new(&checkpoint.model)?;
        let state = State {
            cache: KvCache::new(model, &config, weights.dtype(), weights.device())?,
            waiting: VecDeque::new(),
            running: Vec::new(),
            stats: GenerationStats::default(),
            next_id: 0,
        };
        Ok(Self { tokenizer: checkpoint.tokenizer.clone(), weights, config, state })
    }

    /// What it may use.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The tokenizer of its checkpoint.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The forward pass over what was planned.
    fn pass(&mut self, chunks: &[Chunk]) -> Result<Passed> {
        let began = Instant::now();
        let State { cache, running, stats, .. } = &mut self.state;
        let (mut ids, mut spans, mut last) = (Vec::new(), Vec::new(), Vec::new());
        // Rows and keys seen, of prompts and of newest tokens.
        let (mut prompt, mut newest) = ((0usize, 0usize), (0usize, 0usize));
        for chunk in chunks {
            let sequence = &running[chunk.sequence];
            let first = ids.len();
            ids.extend_from_slice(&sequence.tokens[chunk.tokens.clone()]);
            let rows = first..ids.len();
            let kind = if chunk.tokens.start < sequence.prompt { &mut prompt } else { &mut newest };
            kind.0 += rows.len();
            kind.1 += chunk.tokens.clone().map(|position| position + 1).sum::<usize>();
            spans.push(Span { rows, position: chunk.tokens.start, pages: &sequence.cached.pages });
            if chunk.tokens.end == sequence.tokens.len() {
                last.push(ids.len() as u32 - 1);
            }
        }
        let passed = self.weights.forward(&ids, &spans, &last, cache)?;
        cache.computed();
        let all = began.elapsed();
        stats.steps += 1;
        stats.computed_tokens += ids.len() as u64;
        stats.attended_keys += (prompt.1 + newest.1) as u64;
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let prefill = passed.attention.mul_f64(share(prompt.1, prompt.1 + newest.1))
            + all.saturating_sub(passed.attention).mul_f64(share(prompt.0, ids.len()));
        stats.times.prefill += prefill;
        stats.times.decode += all.saturating_sub(prefill);
        stats.times.attention += passed.attention;
        Ok(passed)
    }

    /// Chooses a token for every sequence whose tokens have all been computed; returns those that ended.
    fn advance(&mut self, chunks: &[Chunk], logits: &Tensor) -> Result<Vec<(RequestId, FinishReason)>> {
        let began = Instant::now();
        let (running, eos) = (&mut self.state.running, self.tokenizer.eos());
        let mut place = vec![None; running.len()];
        let ready = chunks.iter().filter(|chunk| chunk.tokens.end == running[chunk.sequence].tokens.len());
        for (row, chunk) in ready.enumerate() {
            place[chunk.sequence] = Some(row);
        }
        let mut ready: Vec<(usize, &mut Sequence)> =
            running.iter_mut().zip(&place).filter_map(|(sequence, row)| row.map(|row| (row, sequence))).collect();
        let mut asks = vec![Ask::default(); ready.len()];
        for (row, sequence) in &mut ready {
            asks[*row] = sequence.ask(eos);
        }
        let chosen = sample::choose(logits, &asks)?;
        let mut ended = Vec::new();
        for (row, sequence) in &mut ready {
            let choice = chosen[*row].map_err(|refusal| Error::Generation(refusal.to_string()))?;
            if let Some(finish) = sequence.push(choice, &self.tokenizer)? {
                ended.push((sequence.id, finish));
            }
        }
        self.state.stats.times.sampling += began.elapsed();
        Ok(ended)
    }

    /// Takes an ended sequence out.
    fn complete_one(&mut self, id: RequestId, finish: FinishReason) -> Result<Option<(RequestId, Completion)>> {
        let Some(mut sequence) = self.state.take_running(id) else { return Ok(None) };
        self.state.cache.release(&mut sequence.cached, &sequence.tokens);
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
        let mut tokens = vec![self.tokenizer.bos()];
        tokens.append(&mut self.tokenizer.encode(&prompt)?);
        let cut = tokens.len().saturating_sub(room);
        tokens.drain(..cut);
        let id = RequestId(self.state.next_id);
        let sequence = Sequence::new(id, config, seed, tokens, cut);
        let needed = self.state.cache.pages_for(sequence.most_tokens());
        if needed > self.config.pages {
            return Err(Error::Generation(format!(
                "a prompt of {} tokens and {} new ones need {needed} pages of {} tokens, but the engine has {}; give it \
                 more memory or ask for fewer tokens",
                sequence.prompt, sequence.config.max_new_tokens, self.config.page_size, self.config.pages
            )));
        }
        self.state.next_id += 1;
        self.state.stats.prompt_tokens += sequence.prompt as u64;
        self.state.stats.truncated_prompts += u64::from(cut > 0);
        self.state.waiting.push_back(sequence);
        self.state.stats.times.tokenizer += began.elapsed();
        Ok(id)
    }

    fn step(&mut self) -> Result<Vec<(RequestId, Completion)>> {
        if self.unfinished() == 0 {
            return Ok(Vec::new());
        }
        let began = Instant::now();
        let chunks = plan(&mut self.state, &self.config)?;
        self.state.stats.times.schedule += began.elapsed();
        let passed = self.pass(&chunks)?;
        let ended = match &passed.logits {
            Some(logits) => self.advance(&chunks, logits)?,
            None => Vec::new(),
        };
        let began = Instant::now();
        let mut completions = Vec::with_capacity(ended.len());
        for (id, finish) in ended {
            completions.extend(self.complete_one(id, finish)?);
        }
        self.state.stats.times.tokenizer += began.elapsed();
        Ok(completions)
    }

    fn abort(&mut self, id: RequestId) {
        self.state.waiting.retain(|sequence| sequence.id != id);
        if let Some(mut sequence) = self.state.take_running(id) {
            self.state.cache.release(&mut sequence.cached, &sequence.tokens);
        }
    }

    fn unfinished(&self) -> usize {
        self.state.waiting.len() + self.state.running.len()
    }

    fn stats(&self) -> GenerationStats {
        self.state.stats
    }
}
