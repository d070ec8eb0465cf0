//! What generated an utterance, token by token.

use serde::{Deserialize, Serialize};

/// The tokens of an utterance by a model, for training on exactly what was sampled. All lists have one entry a token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// The tokens, with the one that ended the utterance if it has one.
    pub token_ids: Vec<u32>,
    /// ln p of each token under softmax of the model's logits.
    pub model_log_probs: Vec<f32>,
    /// ln p of each token under the distribution that it was sampled from, with temperature, top-k and top-p; 0 if greedy.
    pub sampling_log_probs: Vec<f32>,
    /// The version of the policy's weights: 0 for those that were loaded, one more with each update.
    pub policy_version: u64,
}

/// Whether games keep the [`Generation`] of their utterances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenRecords {
    /// They are dropped.
    #[default]
    Dropped,
    /// They are kept, as the key `generation` of an utterance.
    Kept,
}

impl From<bool> for TokenRecords {
    /// The setting `record_tokens`.
    fn from(record_tokens: bool) -> Self {
        if record_tokens { Self::Kept } else { Self::Dropped }
    }
}
