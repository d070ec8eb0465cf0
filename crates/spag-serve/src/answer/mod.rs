//! Responses in the formats of OpenAI's API, complete or streamed.

mod chat;
mod completion;

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use spag_model::Completion;
use spag_model::generate::{Event, TokenLogProb};

use crate::api::{ApiError, Delivery, StreamUsage};
use crate::engine_thread::Sequences;

pub(crate) use chat::ChatAnswer;
pub(crate) use completion::CompletionAnswer;

/// Token counts of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Tokens of all prompts, each counted once.
    pub(crate) prompt: usize,
    /// Tokens of all completions.
    pub(crate) completion: usize,
    /// Prompt tokens found in the KV cache, over all completions, at most `prompt`.
    pub(crate) cached: usize,
}

impl Usage {
    fn add(&mut self, completion: &Completion) {
        self.completion += completion.token_ids.len();
        self.cached += completion.cached_tokens;
    }

    fn body(&self) -> UsageBody {
        UsageBody {
            prompt_tokens: self.prompt,
            completion_tokens: self.completion,
            total_tokens: self.prompt + self.completion,
            prompt_tokens_details: PromptDetails { cached_tokens: self.cached.min(self.prompt) },
        }
    }
}

/// [`Usage`] in the response format.
#[derive(Clone, Copy, Debug, Serialize)]
struct UsageBody {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
    prompt_tokens_details: PromptDetails,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct PromptDetails {
    cached_tokens: usize,
}

/// The fields shared by all parts of an answer, and the token counts so far.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    id: String,
    created: u64,
    /// The model name that the client requested.
    model: String,
    usage: Usage,
    /// The `object` of a stream's chunks.
    piece: &'static str,
    /// Whether the answer is streamed.
    pub(crate) delivery: Delivery,
}

impl Head {
    /// The head of a new answer, whose id starts with `prefix`.
    pub(crate) fn new(prefix: &str, model: String) -> Self {
        let id = format!("{prefix}-{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>());
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { id, created, model, usage: Usage::default(), piece: "", delivery: Delivery::Whole }
    }

    /// Sets the chunk name, the delivery and the prompt token count.
    fn of(self, piece: &'static str, delivery: Delivery, prompt: usize) -> Self {
        Self { usage: Usage { prompt, ..self.usage }, piece, delivery, ..self }
    }

    /// Counts the tokens of a finished sequence.
    pub(crate) fn count(&mut self, completion: &Completion) {
        self.usage.add(completion);
    }

    /// The body of a complete answer.
    ///
    /// # Errors
    /// JSON serialization fails.
    fn whole<C: Serialize>(&self, object: &'static str, choices: &[C]) -> Result<String, ApiError> {
        let body = self.body(object, choices, UsageField::Of(self.usage.body()));
        serde_json::to_string(&body).map_err(|error| ApiError::server(error.to_string()))
    }

    /// Appends a chunk of an answer.
    fn push(&self, choice: impl Serialize, stream: &mut Pieces) {
        let sends_usage = self.delivery == Delivery::Stream(StreamUsage::Sent);
        let usage = if sends_usage { UsageField::Null } else { UsageField::Absent };
        stream.push(&self.body(self.piece, &[choice], usage));
    }

    /// Appends the end of an answer.
    pub(crate) fn end(&self, stream: &mut Pieces) {
        if self.delivery == Delivery::Stream(StreamUsage::Sent) {
            stream.push(&self.body::<()>(self.piece, &[], UsageField::Of(self.usage.body())));
        }
        stream.done();
    }

    fn body<'a, C>(&'a self, object: &'static str, choices: &'a [C], usage: UsageField) -> Body<'a, C> {
        Body { id: &self.id, object, created: self.created, model: &self.model, choices, usage }
    }
}

/// An answer or a chunk in the response format. Borrows its texts, since a busy server sends thousands of chunks a second.
#[derive(Debug, Serialize)]
struct Body<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [C],
    #[serde(skip_serializing_if = "UsageField::is_absent")]
    usage: UsageField,
}

/// The field `usage`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
enum UsageField {
    Absent,
    /// For all chunks but the last, if the last has usage.
    Null,
    Of(UsageBody),
}

impl UsageField {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// An answer that is sent complete or in chunks, one server-sent event each.
pub(crate) trait Answer: Send + 'static {
    /// The shared fields.
    fn head(&mut self) -> &mut Head;

    /// The complete body. `completions` is empty if the engine had nothing to compute.
    ///
    /// # Errors
    /// The tokenizer cannot decode a prompt or a token, or JSON serialization fails.
    fn body(self, completions: &[Completion]) -> Result<String, ApiError>;

    /// Appends what is sent before the first event.
    fn begin(&mut self, stream: &mut Pieces) -> spag_model::Result<()>;

    /// Appends what an event of a sequence sends; never called with `Finished` or `Failed`.
    fn event(&mut self, sequence: usize, event: Event, stream: &mut Pieces) -> spag_model::Result<()>;

    /// Appends what the end of a sequence sends.
    fn finish(&mut self, sequence: usize, completion: &Completion, stream: &mut Pieces);
}

/// Server-sent events to be written.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<u8>);

impl Pieces {
    /// Appends an event with JSON.
    pub(crate) fn push(&mut self, data: &impl Serialize) {
        self.0.extend_from_slice(b"data: ");
        // JSON has no line breaks. Writing to memory cannot fail, and our keys are strings.
        let _ = serde_json::to_writer(&mut self.0, data);
        self.0.extend_from_slice(b"\n\n");
    }

    /// Appends the event that ends a stream.
    pub(crate) fn done(&mut self) {
        self.0.extend_from_slice(b"data: [DONE]\n\n");
    }

    /// Whether nothing was appended.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes what was appended.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Waits for all completions of a request, in order.
///
/// # Errors
/// A sequence or the engine fails.
pub(crate) async fn collect(sequences: &mut Sequences, number: usize) -> Result<Vec<Completion>, ApiError> {
    let mut done: Vec<Option<Completion>> = vec![None; number];
    let mut left = number;
    while left > 0 {
        if let (at, Event::Finished(completion)) = sequences.next().await? {
            left -= usize::from(done.get_mut(at).is_some_and(|place| place.replace(completion).is_none()));
        }
    }
    Ok(done.into_iter().flatten().collect())
}

/// The log-probabilities of the generated tokens of a completion.
fn generated(completion: &Completion) -> Vec<TokenLogProb> {
    let tokens = completion.token_ids.iter().zip(&completion.model_log_probs).enumerate();
    let top = |at: usize| completion.top_log_probs.get(at).cloned().unwrap_or_default();
    tokens.map(|(at, (token, log_prob))| TokenLogProb { token: *token, log_prob: *log_prob, top: top(at) }).collect()
}
