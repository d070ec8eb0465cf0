//! Requests and the [`Generate`] trait.

use std::sync::Arc;

use super::completion::{Completion, RequestId};
use super::event::Event;
use super::generation_config::GenerationConfig;
use super::stats::GenerationStats;
use crate::error::{Error, RequestError, Result};

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

/// The prompt of a completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Text. BOS is prepended if the tokenizer adds one.
    Text(String),
    /// Tokens, used unchanged.
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

/// A generation engine as used by games, batch generation and servers. Completions arrive in any order.
pub trait Generate {
    /// Adds a request.
    ///
    /// # Errors
    /// The request can never be completed: text that the tokenizer rejects, invalid settings, or too many tokens.
    /// Nothing is submitted then.
    fn submit(&mut self, request: Request) -> Result<RequestId, RequestError>;

    /// Runs one forward pass and returns the events, in order for each request. Does nothing without unfinished
    /// requests.
    ///
    /// # Errors
    /// The engine failed, e.g. by an error of the device. It cannot continue.
    fn step(&mut self) -> Result<Vec<(RequestId, Event)>>;

    /// Aborts a request: its pages are freed immediately, and it has no more events. Unknown ids are ignored.
    fn abort(&mut self, id: RequestId);

    /// Number of requests that are waiting or running.
    fn unfinished(&self) -> usize;

    /// Statistics so far.
    fn stats(&self) -> GenerationStats;

    /// Completes all `requests`; returns the completions in request order.
    ///
    /// # Errors
    /// As [`Generate::step`], or [`Error::Request`] if a request cannot be completed; the others are then aborted.
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
