//! What the next forward pass computes: who joins, whose prompt goes on, who has to wait.

use std::ops::Range;

use super::config::EngineConfig;
use super::engine::State;
use crate::error::{Error, Result};

/// Tokens of one sequence that a forward pass computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Place among the running ones.
    pub(super) sequence: usize,
    /// Places in the sequence.
    pub(super) tokens: Range<usize>,
}

/// Plans a forward pass: every decoding sequence gets its one token, and prompts share what is left of the step.
///
/// Older sequences come first and are never preempted for younger ones, so that at least the oldest always advances.
pub(super) fn plan(state: &mut State, config: &EngineConfig) -> Result<Vec<Chunk>> {
    let decoding = state.running.iter().filter(|sequence| sequence.pending() == 1).count();
    // Prompts always get a page's worth, whatever decodes.
    let mut budget = config.max_step_tokens.saturating_sub(decoding).max(config.page_size.min(config.max_step_tokens));
    let mut chunks = Vec::new();
    let mut preempted = false;
    let mut index = 0;
    while index < state.running.len() {
        match extend(state, index, &mut budget)? {
            Extended::Chunk(chunk) => chunks.push(chunk),
            Extended::NoBudget => {}
            Extended::NoPages => {
                preempted = true;
                preempt_youngest(state);
                // The same one again, unless it was the youngest itself.
                continue;
            }
        }
        index += 1;
    }
    while !preempted && budget > 0 && state.running.len() < config.max_running {
        let Some(mut sequence) = state.waiting.pop_front() else { break };
        let found = state.cache.share_pages(&mut sequence.cached, &sequence.tokens);
        let held = sequence.cached.pages.len();
        let lacking = state.cache.pages_for(sequence.tokens.len() + 1).saturating_sub(held);
        if lacking > state.cache.available() && !state.running.is_empty() {
            state.cache.release(&mut sequence.cached, &sequence.tokens);
            state.waiting.push_front(sequence);
            break;
        }
        state.stats.cached_tokens += sequence.note_found(found);
        if sequence.preempted {
            state.stats.recomputed_tokens += sequence.pending() as u64;
        }
        state.running.push(sequence);
        match extend(state, state.running.len() - 1, &mut budget)? {
            Extended::Chunk(chunk) => chunks.push(chunk),
            Extended::NoBudget => break,
            Extended::NoPages => {
                preempt_youngest(state);
                break;
            }
        }
    }
    if chunks.is_empty() {
        return Err(Error::Generation("no request can go on; this is a fault of the engine".into()));
    }
    // Newest tokens of sequences that begin alike go together: they read the pages that they share once.
    chunks.sort_by(|a, b| {
        let key = |chunk: &Chunk| chunk.tokens.len() == 1;
        let pages = |chunk: &Chunk| &state.running[chunk.sequence].cached.pages;
        key(a).cmp(&key(b)).then_with(|| pages(a).cmp(pages(b)))
    });
    Ok(chunks)
}

enum Extended {
    Chunk(Chunk),
    /// The step holds no more prompt tokens.
    NoBudget,
    /// All pages are in use.
    NoPages,
}

/// Plans the next tokens of a running sequence.
fn extend(state: &mut State, index: usize, budget: &mut usize) -> Result<Extended> {
    let sequence = &mut state.running[index];
    let is_prompt = sequence.pending() > 1;
    if is_prompt {
        // What others have computed meanwhile.
        let found = state.cache.share(&mut sequence.cached, &sequence.tokens)?;
        state.stats.cached_tokens += sequence.note_found(found);
        if *budget == 0 {
            return Ok(Extended::NoBudget);
        }
    }
    let start = sequence.cached.computed;
    let end = if is_prompt { sequence.tokens.len().min(start + *budget) } else { sequence.tokens.len() };
    if !state.cache.reserve(&mut sequence.cached, end) {
        return Ok(Extended::NoPages);
    }
    state.cache.fill(&mut sequence.cached, &sequence.tokens, end);
    if is_prompt {
        *budget -= end - start;
    }
    Ok(Extended::Chunk(Chunk { sequence: index, tokens: start..end }))
}

/// The youngest gives its pages up and goes back to the head of the queue; what it has chosen stays chosen.
fn preempt_youngest(state: &mut State) {
    let Some(mut sequence) = state.running.pop() else { return };
    state.cache.release(&mut sequence.cached, &sequence.tokens);
    sequence.preempted = true;
    state.stats.preemptions += 1;
    state.waiting.push_front(sequence);
}
