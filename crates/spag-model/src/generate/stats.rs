//! What an engine has done.

use std::time::Duration;

/// Counts since an engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationStats {
    /// Requests completed.
    pub requests: u64,
    /// Prompt tokens asked for.
    pub prompt_tokens: u64,
    /// Prompt tokens whose keys and values were there already.
    pub cached_tokens: u64,
    /// New tokens, with the EOS or stop token that ended a completion.
    pub new_tokens: u64,
    /// Tokens that went through the model: what prompts lacked, new tokens, and what had to be computed again.
    pub computed_tokens: u64,
    /// Tokens computed again after a preemption.
    pub recomputed_tokens: u64,
    /// Keys that all computed tokens attended to, in one layer: what attention read, times its width.
    pub attended_keys: u64,
    /// Requests that had to give their memory up for a while.
    pub preemptions: u64,
    /// Prompts that lost tokens on the left.
    pub truncated_prompts: u64,
    /// Forward passes.
    pub steps: u64,
    /// Where the time went.
    pub times: GenerationTimes,
}

impl GenerationStats {
    /// Share of the prompt tokens asked for that were there already, 0–1; 0 where none were asked for.
    pub fn hit_rate(&self) -> f64 {
        self.cached_tokens as f64 / (self.prompt_tokens as f64).max(1.0)
    }
}

/// Where an engine's time went.
///
/// A GPU is given its work and works while the engine goes on: there, forward passes count what starting them took, and
/// waiting for their end is part of choosing tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationTimes {
    /// Text into tokens and tokens into text.
    pub tokenizer: Duration,
    /// Choosing what a step computes, and finding pages.
    pub schedule: Duration,
    /// Forward passes: the share of prompts. A step's time is split by tokens, its attention by the keys seen.
    pub prefill: Duration,
    /// Forward passes: the share of the newest tokens.
    pub decode: Duration,
    /// Of these two, attention.
    pub attention: Duration,
    /// Choosing tokens.
    pub sampling: Duration,
}
