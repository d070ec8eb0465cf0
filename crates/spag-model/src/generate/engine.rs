//! The generation engine: schedules sequences, runs the model and samples tokens.

use std::collections::VecDeque;
use std::time::Instant;

use candle_core::Tensor;

use super::config::{EngineConfig, Weights};
use super::event::{Event, TokenEvent};
use super::generation_config::{GenerationConfig, Overflow};
use super::kv::KvCache;
use super::model_runner::{ForwardOutput, ModelRunner, Wanted};
use super::request::{FinishReason, Generate, Prompt, Request, RequestId};
use super::request_error::RequestError;
use super::schedule::{ScheduledChunk, schedule};
use super::sequence::Sequence;
use super::stats::GenerationStats;
use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::ops::paged_attention::Span;
use crate::ops::sample::{self, SampleError, SampleParams, SampledToken, ScoreParams, TokenLogProb};
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

/// How a request ended.
type Ended = std::result::Result<FinishReason, RequestError>;

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
        let (mut ids, mut spans, mut last, mut scored) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
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
            scored.extend(sequence.scored_rows(&chunk.tokens).map(|position| ScoreParams {
                row: first + position - chunk.tokens.start,
                token: sequence.tokens[position + 1],
                top: sequence.config.log_probs.top,
            }));
            if chunk.completes(sequence) && sequence.generates() {
                last.push(ids.len() as u32 - 1);
            }
        }
        let output = self.runner.forward(&ids, &spans, &Wanted { last: &last, scored: &scored }, cache)?;
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

    /// Stores the log-probabilities of prompts that a pass computed. Returns the requests that failed.
    fn record_scores(
        &mut self,
        chunks: &[ScheduledChunk],
        scored: Vec<std::result::Result<TokenLogProb, SampleError>>,
    ) -> Vec<(RequestId, Ended)> {
        let (mut scored, mut failed) = (scored.into_iter(), Vec::new());
        for chunk in chunks {
            let sequence = &mut self.state.running[chunk.sequence];
            let rows = sequence.scored_rows(&chunk.tokens).len();
            for row in scored.by_ref().take(rows) {
                match (row, &mut sequence.scores) {
                    (Ok(row), Some(scores)) => scores.push(row),
                    (Ok(_), None) => {}
                    (Err(e), _) => {
                        failed.push((sequence.id, Err(RequestError::of_row(e, self.tokenizer.folder()))));
                    }
                }
            }
        }
        failed
    }

    /// Samples a token for every sequence that is fully computed, except for those in `ended`. Adds the sequences that
    /// ended, and reports the tokens of the others.
    fn sample(
        &mut self,
        chunks: &[ScheduledChunk],
        logits: Option<&Tensor>,
        ended: &mut Vec<(RequestId, Ended)>,
        events: &mut Vec<(RequestId, Event)>,
    ) -> Result<()> {
        let began = Instant::now();
        let (running, eos) = (&mut self.state.running, self.tokenizer.eos_ids());
        // Rows of the logits are in the order of the chunks, results in the order of the sequences.
        let mut place = vec![None; running.len()];
        let mut rows = 0;
        for chunk in chunks.iter().filter(|chunk| chunk.completes(&running[chunk.sequence])) {
            place[chunk.sequence] = Some(rows);
            rows += usize::from(running[chunk.sequence].generates());
        }
        let mut ready: Vec<(usize, &mut Sequence)> =
            running.iter_mut().zip(&place).filter_map(|(sequence, row)| row.map(|row| (row, sequence))).collect();
        ready.retain_mut(|(_, sequence)| {
            if !ended.iter().any(|(id, _)| *id == sequence.id) {
                if sequence.streams() {
                    let scores = sequence.unreported_scores();
                    events.extend(scores.map(|scores| (sequence.id, Event::Prompt(scores))));
                }
                if !sequence.generates() {
                    ended.push((sequence.id, Ok(FinishReason::Length)));
                }
            }
            sequence.generates()
        });
        let Some(logits) = logits else { return Ok(()) };
        let mut params = vec![SampleParams::default(); ready.len()];
        for (row, sequence) in &mut ready {
            params[*row] = sequence.sampling_params(eos);
        }
        let chosen = sample::sample(logits, &params)?;
        let mut tops = self::tops(logits, &ready, &chosen)?;
        for (row, sequence) in &mut ready {
            if ended.iter().any(|(id, _)| *id == sequence.id) {
                continue;
            }
            let pushed = match chosen[*row] {
                Ok(choice) => sequence.push(choice, tops[*row].take(), &self.tokenizer),
                Err(e) => Err(RequestError::of_row(e, self.tokenizer.folder())),
            };
            match pushed.transpose() {
                Some(end) => ended.push((sequence.id, end)),
                None if sequence.streams() => {
                    let token = sequence.last_token();
                    events.extend(token.map(|(token, text)| (sequence.id, Event::Token(TokenEvent { token, text }))));
                }
                None => {}
            }
        }
        self.state.stats.times.sampling += began.elapsed();
        Ok(())
    }

    /// Removes a sequence that ended, and reports it.
    fn finish(&mut self, id: RequestId, end: Ended, events: &mut Vec<(RequestId, Event)>) {
        let Some(mut sequence) = self.state.take_running(id) else { return };
        self.state.cache.release(&mut sequence.table, &sequence.tokens);
        let (tokens, streams) = (sequence.tokens.len() - sequence.prompt, sequence.streams());
        let token = if streams { sequence.last_token() } else { None };
        let last = match end.and_then(|finish| sequence.complete(finish, &self.tokenizer)) {
            Ok((completion, rest)) => {
                self.state.stats.requests += 1;
                self.state.stats.new_tokens += tokens as u64;
                events.extend(token.map(|(token, text)| (id, Event::Token(TokenEvent { token, text: text + &rest }))));
                Event::Finished(completion)
            }
            Err(error) => Event::Failed(error),
        };
        events.push((id, last));
    }

    /// The tokens of a prompt.
    fn encode(&self, prompt: Prompt, config: &GenerationConfig) -> Result<Vec<u32>, RequestError> {
        let tokens = match prompt {
            Prompt::Text(text) => {
                self.tokenizer.encode_prompt(&text, config.special_tokens).map_err(RequestError::of_text)?
            }
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

/// The most likely tokens in each row of logits, of sequences that ask for them. `chosen` are the sampled tokens.
fn tops(
    logits: &Tensor,
    ready: &[(usize, &mut Sequence)],
    chosen: &[std::result::Result<SampledToken, SampleError>],
) -> Result<Vec<Option<Vec<(u32, f32)>>>> {
    let mut tops = vec![None; chosen.len()];
    let params = |(row, sequence): &(usize, &mut Sequence)| {
        let (top, choice) = (sequence.config.log_probs.top, chosen[*row].ok()?);
        (top > 0).then_some(ScoreParams { row: *row, token: choice.token, top })
    };
    let params: Vec<ScoreParams> = ready.iter().filter_map(params).collect();
    for (params, scored) in params.iter().zip(sample::score(logits, &params)?) {
        tops[params.row] = scored.ok().map(|scored| scored.top);
    }
    Ok(tops)
}

impl State {
    fn take_running(&mut self, id: RequestId) -> Option<Sequence> {
        let at = self.running.iter().position(|sequence| sequence.id == id)?;
        Some(self.running.remove(at))
    }
}

impl Generate for Engine {
    fn submit(&mut self, request: Request) -> Result<RequestId, RequestError> {
        let began = Instant::now();
        let Request { prompt, seed, config } = request;
        config.check()?;
        let (max_new_tokens, max_length) = (config.max_new_tokens, self.config.max_length);
        let room = max_length.saturating_sub(max_new_tokens);
        if room == 0 {
            return Err(RequestError::NoRoom { max_new_tokens, max_length });
        }
        let mut tokens = self.encode(prompt, &config)?;
        let truncated = tokens.len().saturating_sub(room);
        if truncated > 0 && config.overflow == Overflow::Refuse {
            return Err(RequestError::PromptTooLong { prompt: tokens.len(), max_new_tokens, max_length });
        }
        tokens.drain(..truncated);
        let id = RequestId(self.state.next_id);
        let sequence = Sequence::new(id, config, seed, tokens, truncated, &self.tokenizer);
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
        let began = Instant::now();
        let chunks = schedule(&mut self.state, &self.config)?;
        self.state.stats.times.schedule += began.elapsed();
        let output = self.forward(&chunks)?;
        let mut events = Vec::new();
        let mut ended = self.record_scores(&chunks, output.scored);
        self.sample(&chunks, output.logits.as_ref(), &mut ended, &mut events)?;
        let began = Instant::now();
        for (id, end) in ended {
            self.finish(id, end, &mut events);
        }
        self.state.stats.times.tokenizer += began.elapsed();
        Ok(events)
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
