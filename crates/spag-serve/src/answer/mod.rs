//! Answers: the events of sequences in the forms of OpenAI's API, at once or as a stream.

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

/// The numbers of tokens of an answer.
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

/// [`Usage`] as it is sent.
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

/// What all parts of an answer state, and the tokens so far.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    id: String,
    created: u64,
    /// The name by which the client asked for the model.
    model: String,
    usage: Usage,
    /// What a piece of a stream calls itself.
    piece: &'static str,
    /// How the answer is sent.
    pub(crate) delivery: Delivery,
}

impl Head {
    /// The head of a new answer, whose id begins with `prefix`.
    pub(crate) fn new(prefix: &str, model: String) -> Self {
        let id = format!("{prefix}-{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>());
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self { id, created, model, usage: Usage::default(), piece: "", delivery: Delivery::Whole }
    }

    /// The head of an answer to prompts with so many tokens.
    fn of(self, piece: &'static str, delivery: Delivery, prompt: usize) -> Self {
        Self { usage: Usage { prompt, ..self.usage }, piece, delivery, ..self }
    }

    /// Counts the tokens of a sequence that has ended.
    pub(crate) fn count(&mut self, completion: &Completion) {
        self.usage.add(completion);
    }

    /// The text of a whole answer.
    ///
    /// # Errors
    /// It cannot be written as JSON.
    fn whole<C: Serialize>(&self, object: &'static str, choices: &[C]) -> Result<String, ApiError> {
        let body = self.body(object, choices, UsageField::Of(self.usage.body()));
        serde_json::to_string(&body).map_err(|error| ApiError::server(error.to_string()))
    }

    /// Appends a piece of an answer.
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

/// An answer, or a piece of one, as it is sent. It borrows its texts, since a busy server sends thousands of pieces a second.
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
    /// Of all pieces but the last, if the last has it.
    Null,
    Of(UsageBody),
}

impl UsageField {
    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// An answer that is sent at once, or piece by piece: each piece is one event of the stream.
pub(crate) trait Answer: Send + 'static {
    /// What all its parts state.
    fn head(&mut self) -> &mut Head;

    /// The whole body. Without the engine's completions there was nothing to compute.
    ///
    /// # Errors
    /// The tokenizer cannot decode a prompt or a token, or the answer cannot be written as JSON.
    fn body(self, completions: &[Completion]) -> Result<String, ApiError>;

    /// What is sent before the first event.
    fn begin(&mut self, stream: &mut Pieces) -> spag_model::Result<()>;

    /// What is sent for an event of a sequence, which is neither `Finished` nor `Failed`.
    fn event(&mut self, sequence: usize, event: Event, stream: &mut Pieces) -> spag_model::Result<()>;

    /// What is sent when a sequence has ended.
    fn finish(&mut self, sequence: usize, completion: &Completion, stream: &mut Pieces);
}

/// Server-sent events that are to be written.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<u8>);

impl Pieces {
    /// Appends an event with JSON.
    pub(crate) fn push(&mut self, data: &impl Serialize) {
        self.0.extend_from_slice(b"data: ");
        // JSON has no line breaks. Memory takes all that is written, and the keys of our bodies are texts.
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
/// One of the sequences fails, or the engine.
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
