//! Statistics of an engine.

use std::time::Duration;

/// Counters since the engine was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationStats {
    /// Completed requests.
    pub requests: u64,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Prompt tokens found in the KV cache.
    pub cached_tokens: u64,
    /// Generated tokens, including the EOS or stop token that ended a completion.
    pub new_tokens: u64,
    /// Tokens computed by the model: uncached prompt tokens, generated tokens, and tokens recomputed after a
    /// preemption.
    pub computed_tokens: u64,
    /// Tokens recomputed after a preemption.
    pub recomputed_tokens: u64,
    /// Number of keys attended to by computed tokens, in one layer.
    pub attended_keys: u64,
    /// Preempted requests.
    pub preemptions: u64,
    /// Prompts truncated on the left.
    pub truncated_prompts: u64,
    /// Forward passes.
    pub steps: u64,
    /// Time spent, by activity.
    pub times: GenerationTimes,
}

impl GenerationStats {
    /// Prefix cache hit rate: the share of prompt tokens found in the cache, 0–1; 0 without prompts.
    pub fn hit_rate(&self) -> f64 {
        self.cached_tokens as f64 / (self.prompt_tokens as f64).max(1.0)
    }
}

/// Time spent by an engine.
///
/// GPUs work asynchronously: `prefill` and `decode` count the time to launch the kernels; waiting for their results is
/// part of `sampling`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GenerationTimes {
    /// Encoding prompts and decoding completions.
    pub tokenizer: Duration,
    /// Scheduling steps and allocating pages.
    pub schedule: Duration,
    /// Forward passes, share of prompts. A step's time is split by tokens, attention by attended keys.
    pub prefill: Duration,
    /// Forward passes, share of decoding.
    pub decode: Duration,
    /// Attention, as part of prefill and decode.
    pub attention: Duration,
    /// Sampling tokens.
    pub sampling: Duration,
}
