//! What goes into an engine and what comes out.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::config::GenerationConfig;
use super::stats::GenerationStats;
use crate::error::{Error, Result};

/// A prompt to complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The text; BOS is put before its tokens.
    pub prompt: String,
    /// Seed of every draw of this request: its tokens do not depend on the rest of the batch.
    pub seed: u64,
    /// How it is completed.
    pub config: Arc<GenerationConfig>,
}

/// The name of a request inside an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// Why a completion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The model chose EOS, which is the last of the token ids.
    Eos,
    /// A stop token, which is the last of the token ids.
    StopToken,
    /// A stop string occurred in the text.
    StopString,
    /// `max_new_tokens` are out.
    Length,
}

/// A completed prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The new tokens, with the EOS or stop token that ended them, as the reference returns them.
    pub token_ids: Vec<u32>,
    /// Their text, without what ended it, stripped of nothing else.
    pub text: String,
    /// ln p of each token under the model itself: softmax of its logits as they are.
    pub model_log_probs: Vec<f32>,
    /// ln p of each token under the distribution that it was drawn from: with temperature, top-k, top-p and banned
    /// tokens. 0 where the choice was greedy.
    pub sampling_log_probs: Vec<f32>,
    /// Why it ended.
    pub finish: FinishReason,
    /// Tokens of the prompt that was read, BOS included.
    pub prompt_tokens: usize,
    /// Tokens that were cut off the left of the prompt.
    pub truncated_tokens: usize,
    /// Tokens of the prompt whose keys and values were there already.
    pub cached_tokens: usize,
}

/// Requests in, completions out, in any order: what the games, batches of prompts and servers ask of an engine.
pub trait Generate {
    /// Takes a request on.
    ///
    /// # Errors
    /// Text that the tokenizer refuses, settings that make no sense, or a request that can never fit.
    fn submit(&mut self, request: Request) -> Result<RequestId>;

    /// One forward pass over what is running; the requests that it completed. Nothing happens where nothing is open.
    ///
    /// # Errors
    /// A model whose logits are not finite, or an error of the device.
    fn step(&mut self) -> Result<Vec<(RequestId, Completion)>>;

    /// Drops a request; its completion never comes. One that is not open is left alone.
    fn abort(&mut self, id: RequestId);

    /// Requests taken on and not completed.
    fn unfinished(&self) -> usize;

    /// What has been done so far.
    fn stats(&self) -> GenerationStats;

    /// Completes all of `requests`; the completions come in their order.
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
                // Ids rise; those of requests submitted before are not ours.
                if let Ok(at) = ids.binary_search(&id) {
                    left -= usize::from(done[at].replace(completion).is_none());
                }
            }
        }
        Ok(done.into_iter().flatten().collect())
    }
}
