//! The result of a request.

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::generation_config::GenerationConfig;
use spag_ops::sample::TokenLogProb;

/// Identifies a request within an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// Why a completion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// An EOS token, which is the last token id.
    Eos,
    /// A stop token, which is the last token id.
    StopToken,
    /// A stop string occurred in the text, or EOS spelled by other tokens where that ends it.
    StopString,
    /// `max_new_tokens` was reached.
    Length,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The generated tokens, including the EOS or stop token that ended them, as in the reference.
    pub token_ids: Vec<u32>,
    /// The text, as [`GenerationConfig::text`] says, without the token or string that ended it.
    pub text: String,
    /// ln p of each token under softmax of the unmodified logits.
    pub model_log_probs: Vec<f32>,
    /// The most likely tokens at the position of each token, as in [`TokenLogProb::top`]; empty if none are asked for.
    pub top_log_probs: Vec<Vec<(u32, f32)>>,
    /// ln p of each token under the distribution it was sampled from, with temperature, top-k, top-p and banned tokens;
    /// 0 if greedy.
    pub sampling_log_probs: Vec<f32>,
    /// The log-probabilities of the prompt that were asked for, by position. The first token of a prompt has none.
    pub prompt_log_probs: Option<Vec<Option<TokenLogProb>>>,
    /// Why it ended.
    pub finish: FinishReason,
    /// Prompt tokens after truncation, including BOS.
    pub prompt_tokens: usize,
    /// Prompt tokens truncated on the left.
    pub truncated_tokens: usize,
    /// Prompt tokens found in the KV cache.
    pub cached_tokens: usize,
    /// Version of the weights that generated it; see [`Engine::refresh`](super::Engine::refresh).
    pub policy_version: u64,
}
