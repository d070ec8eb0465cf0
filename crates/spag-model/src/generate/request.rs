//! Requests, completions and the [`Generate`] trait.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::generation_config::GenerationConfig;
use super::request_error::RequestError;
use super::stats::GenerationStats;
use crate::error::{Error, Result};
use spag_ops::sample::TokenLogProb;

/// A generation request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The prompt.
    pub prompt: Prompt,
    /// Seed of the request's samples. They do not depend on the rest of the batch.
    pub seed: u64,
    /// Generation settings.
    pub config: Arc<GenerationConfig>,
}

/// What a completion follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A text. BOS is prepended, if the tokenizer has one.
    Text(String),
    /// Tokens, to which nothing is added.
    Tokens(Vec<u32>),
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u32>> for Prompt {
    fn from(tokens: Vec<u32>) -> Self {
        Self::Tokens(tokens)
    }
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

/// A generation engine as seen by games, batch generation and servers. Completions come in any order.
pub trait Generate {
    /// Adds a request.
    ///
    /// # Errors
    /// A request that can never be completed: text that the tokenizer rejects, invalid settings, or too many tokens.
    /// Nothing has happened then.
    fn submit(&mut self, request: Request) -> Result<RequestId, RequestError>;

    /// Runs one forward pass and returns what happened, for each request in order. Does nothing without unfinished
    /// requests.
    ///
    /// # Errors
    /// A fault of the engine, such as an error of the device. It cannot go on.
    fn step(&mut self) -> Result<Vec<(RequestId, Event)>>;

    /// Aborts a request: its pages are free at once, and it has no more events. Unknown ids are ignored.
    fn abort(&mut self, id: RequestId);

    /// Number of requests that are waiting or running.
    fn unfinished(&self) -> usize;

    /// Statistics so far.
    fn stats(&self) -> GenerationStats;

    /// Completes all `requests`, in their order.
    ///
    /// # Errors
    /// As [`Generate::step`], and [`Error::Request`] if one of them cannot be completed; the others are aborted then.
    fn generate(&mut self, requests: Vec<Request>) -> Result<Vec<Completion>> {
        let mut ids = Vec::with_capacity(requests.len());
        let completed = complete(self, requests, &mut ids);
        if completed.is_err() {
            ids.into_iter().for_each(|id| self.abort(id));
        }
        completed
    }
}

/// Submits `requests`, stores their ids in `ids`, and completes them.
fn complete<E: Generate + ?Sized>(
    engine: &mut E,
    requests: Vec<Request>,
    ids: &mut Vec<RequestId>,
) -> Result<Vec<Completion>> {
    for request in requests {
        ids.push(engine.submit(request)?);
    }
    let mut done: Vec<Option<Completion>> = vec![None; ids.len()];
    let mut left = ids.len();
    while left > 0 {
        if engine.unfinished() == 0 {
            return Err(Error::Generation("a request was lost".into()));
        }
        for (id, event) in engine.step()? {
            // Ids are sorted. Requests submitted earlier are skipped.
            let Ok(at) = ids.binary_search(&id) else { continue };
            match event {
                Event::Finished(completion) => left -= usize::from(done[at].replace(completion).is_none()),
                Event::Failed(error) => return Err(error.into()),
                Event::Prompt(_) | Event::Token(_) => {}
            }
        }
    }
    Ok(done.into_iter().flatten().collect())
}
