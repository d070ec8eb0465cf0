//! Requests, completions and the [`Generate`] trait.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::config::GenerationConfig;
use super::stats::GenerationStats;
use crate::error::{Error, Result};

/// A generation request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The prompt. BOS is prepended, if the tokenizer has one.
    pub prompt: String,
    /// Seed of the request's samples. They do not depend on the rest of the batch.
    pub seed: u64,
    /// Generation settings.
    pub config: Arc<GenerationConfig>,
}

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
    /// ln p of each token under the distribution it was sampled from, with temperature, top-k, top-p and banned tokens;
    /// 0 if greedy.
    pub sampling_log_probs: Vec<f32>,
    /// Why it ended.
    pub finish: FinishReason,
    /// Prompt tokens after truncation, including BOS.
    pub prompt_tokens: usize,
    /// Prompt tokens truncated on the left.
    pub truncated_tokens: usize,
    /// Prompt tokens found in the KV cache.
    pub cached_tokens: usize,
}

/// A generation engine as seen by games, batch generation and servers. Completions come in any order.
pub trait Generate {
    /// Adds a request.
    ///
    /// # Errors
    /// Text that the tokenizer rejects, invalid settings, or a request that can never fit.
    fn submit(&mut self, request: Request) -> Result<RequestId>;

    /// Runs one forward pass and returns the requests that it completed. Does nothing without unfinished requests.
    ///
    /// # Errors
    /// Non-finite logits, or an error of the device.
    fn step(&mut self) -> Result<Vec<(RequestId, Completion)>>;

    /// Aborts a request; it will not be completed. Unknown ids are ignored.
    fn abort(&mut self, id: RequestId);

    /// Number of requests that are waiting or running.
    fn unfinished(&self) -> usize;

    /// Statistics so far.
    fn stats(&self) -> GenerationStats;

    /// Completes all `requests`, in their order.
    ///
    /// # Errors
    /// As [`Generate::submit`] and [`Generate::step`].
    fn generate(&mut self, requests: Vec<Request>) -> Result<Vec<Completion>> {
        let ids = requests.into_iter().map(|request| self.submit(request)).collect::<Result<Vec<_>>>()?;
        let mut done: Vec<Option<Completion>> = vec![None; ids.len()];
        let mut left = ids.len();
        while left > 0 {
            if self.unfinished() == 0 {
                return Err(Error::Generation("a request was lost".into()));
            }
            for (id, completion) in self.step()? {
                // Ids are sorted. Requests submitted earlier are skipped.
                if let Ok(at) = ids.binary_search(&id) {
                    left -= usize::from(done[at].replace(completion).is_none());
                }
            }
        }
        Ok(done.into_iter().flatten().collect())
    }
}
