//! The scheduler: selects the tokens of the next forward pass and preempts sequences if pages run out.

use std::ops::Range;

use super::config::EngineConfig;
use super::engine::State;
use super::sequence::Sequence;
use crate::error::{Error, Result};

/// Tokens of one sequence in a forward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScheduledChunk {
    /// Index into the running sequences.
    pub(super) sequence: usize,
    /// Positions in the sequence.
    pub(super) tokens: Range<usize>,
}

impl ScheduledChunk {
    /// Whether it completes the computation of its sequence's tokens.
    pub(super) fn completes(&self, sequence: &Sequence) -> bool {
        self.tokens.end == sequence.computable_tokens()
    }
}

/// Schedules a forward pass: one token per decoding sequence; prompts share the rest of the token budget.
///
/// Older sequences go first and are never preempted for younger ones, so at least the oldest advances.
pub(super) fn schedule(state: &mut State, config: &EngineConfig) -> Result<Vec<ScheduledChunk>> {
    (0..state.running.len()).for_each(|index| follow_length(state, index));
    let decoding = state.running.iter().filter(|sequence| sequence.uncomputed() == 1).count();
    // Prompts get at least one page of tokens, however many sequences decode.
    let mut budget = config.max_step_tokens.saturating_sub(decoding).max(config.page_size.min(config.max_step_tokens));
    let mut chunks = Vec::new();
    let mut preempted = false;
    let mut index = 0;
    while index < state.running.len() {
        match schedule_sequence(state, index, &mut budget)? {
            Scheduled::Chunk(chunk) => chunks.push(chunk),
            Scheduled::NoBudget => {}
            Scheduled::NoPages => {
                preempted = true;
                preempt_youngest(state);
                // Retry this sequence, unless it was preempted itself.
                continue;
            }
        }
        index += 1;
    }
    while !preempted && budget > 0 && state.running.len() < config.max_running {
        let Some(mut sequence) = state.waiting.pop_front() else { break };
        // It holds no pages.
        sequence.table.root.class = state.lengths.class(sequence.tokens.len());
        let cacheable = sequence.cacheable();
        let found = state.cache.match_full_pages(&mut sequence.table, &sequence.tokens[..cacheable]);
        let held = sequence.table.pages.len();
        let wanted = sequence.max_tokens().min(sequence.tokens.len() + 1);
        let lacking = state.cache.pages_for(wanted).saturating_sub(held);
        if lacking > state.cache.available() && !state.running.is_empty() {
            state.cache.release(&mut sequence.table, &sequence.tokens);
            state.waiting.push_front(sequence);
            break;
        }
        state.stats.cached_tokens += sequence.record_cache_hit(found);
        if sequence.preempted {
            state.stats.recomputed_tokens += sequence.uncomputed() as u64;
        }
        state.running.push(sequence);
        match schedule_sequence(state, state.running.len() - 1, &mut budget)? {
            Scheduled::Chunk(chunk) => chunks.push(chunk),
            Scheduled::NoBudget => break,
            Scheduled::NoPages => {
                preempt_youngest(state);
                break;
            }
        }
    }
    if chunks.is_empty() {
        return Err(Error::Generation("no request can be scheduled; this is a bug in the engine".into()));
    }
    // Decoding sequences with a common prefix are adjacent, so that attention reads shared pages once. They have the same adapter,
    // so its rows are adjacent too and need one product.
    chunks.sort_by(|a, b| {
        let table = |chunk: &ScheduledChunk| &state.running[chunk.sequence].table;
        let key = |chunk: &ScheduledChunk| (chunk.tokens.len() == 1, table(chunk).root);
        key(a).cmp(&key(b)).then_with(|| table(a).pages.cmp(&table(b).pages))
    });
    Ok(chunks)
}

/// Starts a running sequence anew if it has become long: its keys in the cache have other frequencies.
fn follow_length(state: &mut State, index: usize) {
    let sequence = &mut state.running[index];
    let class = state.lengths.class(sequence.tokens.len());
    if sequence.table.root.class == class {
        return;
    }
    state.cache.release(&mut sequence.table, &sequence.tokens);
    sequence.table.root.class = class;
    sequence.preempted = true;
    state.stats.recomputed_tokens += sequence.uncomputed() as u64;
}

enum Scheduled {
    Chunk(ScheduledChunk),
    /// The token budget is exhausted.
    NoBudget,
    /// No page is free.
    NoPages,
}

/// Schedules the next tokens of a running sequence.
fn schedule_sequence(state: &mut State, index: usize, budget: &mut usize) -> Result<Scheduled> {
    let sequence = &mut state.running[index];
    let is_prompt = sequence.uncomputed() > 1;
    if is_prompt {
        // Other sequences may have computed more of the prefix in the meantime.
        let cacheable = sequence.cacheable();
        let found = state.cache.match_prefix(&mut sequence.table, &sequence.tokens[..cacheable])?;
        state.stats.cached_tokens += sequence.record_cache_hit(found);
        if *budget == 0 {
            return Ok(Scheduled::NoBudget);
        }
    }
    let start = sequence.table.computed;
    let all = sequence.computable_tokens();
    let end = if is_prompt { all.min(start + *budget) } else { all };
    if !state.cache.allocate(&mut sequence.table, end) {
        return Ok(Scheduled::NoPages);
    }
    state.cache.commit(&mut sequence.table, &sequence.tokens, end);
    if is_prompt {
        *budget -= end - start;
    }
    Ok(Scheduled::Chunk(ScheduledChunk { sequence: index, tokens: start..end }))
}

/// Preempts the youngest sequence: frees its pages and moves it to the front of the queue. It keeps its sampled
/// tokens.
fn preempt_youngest(state: &mut State) {
    let Some(mut sequence) = state.running.pop() else { return };
    state.cache.release(&mut sequence.table, &sequence.tokens);
    sequence.preempted = true;
    state.stats.preemptions += 1;
    state.waiting.push_front(sequence);
}
