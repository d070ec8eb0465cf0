//! What generated an utterance, token by token.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::completion::UtteranceRule;

/// The tokens of an utterance by a model, for training on exactly what was sampled. All lists have one entry a token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generation {
    /// The tokens, with the one that ended the utterance if it has one.
    pub token_ids: Vec<u32>,
    /// ln p of each token under softmax of the model's logits.
    pub model_log_probs: Vec<f32>,
    /// ln p of each token under the distribution that it was sampled from, with temperature, top-k and top-p; 0 if greedy, and the
    /// bits of `model_log_probs` if it is the model's own.
    pub sampling_log_probs: Vec<f32>,
    /// Tokens at the beginning that are reasoning, those of its closing tag included; 0 without reasoning.
    #[serde(default, skip_serializing_if = "spag_io::is_default")]
    pub reasoning_tokens: usize,
    /// The tokens that the engine wrote after a budget was used up. They are context and were not sampled: their log-probabilities are 0.
    #[serde(default, skip_serializing_if = "Range::is_empty")]
    pub forced_tokens: Range<usize>,
    /// The version of the policy's weights: 0 for those that were loaded, one more with each update.
    pub policy_version: u64,
    /// Where the tokens stand, if the player's prompts have the tokens of its own utterances. No part of records.
    #[serde(skip)]
    pub context: Option<TurnContext>,
}

/// What is around the tokens of an utterance.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnContext {
    /// The tokens of the prompt, as the engine read them.
    pub prompt: Vec<u32>,
    /// How the completion became the utterance.
    pub rule: UtteranceRule,
    /// Why the last token of the utterance is the last.
    pub end: UtteranceEnd,
}

/// Why a model's utterance has no further tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UtteranceEnd {
    /// Its last token ends an utterance and is no part of the text.
    Token,
    /// Its text was cut at a string, so that no tokens are the text.
    Text,
    /// It has as many tokens as an utterance may have.
    Length,
}

impl TurnContext {
    /// The tokens of `ids` without a token that ended the utterance. `None` if the text was cut.
    pub fn of_text<'a>(&self, ids: &'a [u32]) -> Option<&'a [u32]> {
        match self.end {
            UtteranceEnd::Token => ids.split_last().map(|(_, ids)| ids),
            UtteranceEnd::Length => Some(ids),
            UtteranceEnd::Text => None,
        }
    }
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
