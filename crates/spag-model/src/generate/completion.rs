//! The result of a request.

use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::generation_config::GenerationConfig;
use super::reasoning::ReasoningTokens;
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
    /// A stop string occurred in the text, or the EOS text spelled by other tokens, where that ends a completion.
    StopString,
    /// `max_new_tokens` was reached.
    Length,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The generated tokens, including the EOS or stop token that ended them, as in the reference.
    pub token_ids: Vec<u32>,
    /// The text according to [`GenerationConfig::text`], without the ending token or string.
    pub text: String,
    /// ln p of each token under softmax of the unmodified logits.
    pub model_log_probs: Vec<f32>,
    /// The most likely tokens at each position, as in [`TokenLogProb::top`]; empty if not requested.
    pub top_log_probs: Vec<Vec<(u32, f32)>>,
    /// ln p of each token under the distribution it was sampled from, with temperature, top-k, top-p and banned tokens;
    /// 0 if greedy.
    pub sampling_log_probs: Vec<f32>,
    /// Which tokens are reasoning.
    pub reasoning: ReasoningTokens,
    /// The requested log-probabilities of the prompt, by position. The first token of a prompt has none.
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
