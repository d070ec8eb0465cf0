//! Responses of `/v1/chat/completions`.

use std::sync::Arc;

use serde::Serialize;
use spag_io::{ReasoningStream, SplitCompletion, SplitDelta};
use spag_model::Completion;
use spag_model::generate::{Event, TokenEvent};

use super::{Answer, Head, Pieces, generated};
use crate::api::{ApiError, ChatJob, ChatLogProb};
use crate::engine_thread::finish_reason;
use crate::model::ServedModel;

const OBJECT: &str = "chat.completion";
const PIECE: &str = "chat.completion.chunk";

/// A complete answer in the response format.
#[derive(Debug, Serialize)]
struct Choice {
    index: usize,
    message: Message,
    logprobs: Option<LogProbs>,
    finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
struct Message {
    role: &'static str,
    /// Null if there is nothing but reasoning.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    /// Always null: local models do not report refusals.
    refusal: (),
}

/// A chunk of an answer in the response format.
#[derive(Debug, Serialize)]
struct ChoicePiece<'a> {
    index: usize,
    delta: Delta<'a>,
    logprobs: Option<LogProbs>,
    finish_reason: Option<&'static str>,
}

#[derive(Debug, Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct LogProbs {
    content: Vec<ChatLogProb>,
    refusal: (),
}

impl LogProbs {
    fn of(content: Vec<ChatLogProb>) -> Self {
        Self { content, refusal: () }
    }
}

/// The answer to a chat request.
pub(crate) struct ChatAnswer {
    model: Arc<ServedModel>,
    job: ChatJob,
    head: Head,
    /// What splits each streamed sequence.
    streams: Vec<ReasoningStream>,
}

impl ChatAnswer {
    /// An answer without any choices yet.
    pub(crate) fn new(model: Arc<ServedModel>, job: ChatJob, head: Head) -> Self {
        let head = head.of(PIECE, job.settings.delivery, job.prompt_tokens());
        let streams = vec![job.splitting().stream(); job.settings.n];
        Self { model, job, head, streams }
    }

    /// Appends what a piece of text adds to the parts of an answer, reasoning first.
    fn push(&self, index: usize, delta: &SplitDelta, mut logprobs: Option<LogProbs>, stream: &mut Pieces) {
        let SplitDelta { reasoning, utterance } = delta;
        if !reasoning.is_empty() {
            let (delta, logprobs) = (Delta { reasoning_content: Some(reasoning), ..Delta::default() }, logprobs.take());
            self.head.push(ChoicePiece { index, delta, logprobs, finish_reason: None }, stream);
        }
        if !utterance.is_empty() || logprobs.is_some() {
            let delta = Delta { content: Some(utterance), ..Delta::default() };
            self.head.push(ChoicePiece { index, delta, logprobs, finish_reason: None }, stream);
        }
    }
}

impl Answer for ChatAnswer {
    fn head(&mut self) -> &mut Head {
        &mut self.head
    }

    fn body(mut self, completions: &[Completion]) -> Result<String, ApiError> {
        let mut choices = Vec::with_capacity(completions.len());
        for (index, completion) in completions.iter().enumerate() {
            self.head.count(completion);
            let log_probs = self.job.log_probs.map(|top| {
                let tokens = generated(completion);
                LogProbs::of(tokens.iter().map(|token| ChatLogProb::new(&self.model, token, top)).collect())
            });
            let SplitCompletion { reasoning, utterance } = self.job.splitting().split(&completion.text);
            choices.push(Choice {
                index,
                message: Message { role: "assistant", content: utterance, reasoning_content: reasoning, refusal: () },
                logprobs: log_probs,
                finish_reason: finish_reason(completion.finish),
            });
        }
        self.head.whole(OBJECT, &choices)
    }

    fn begin(&mut self, stream: &mut Pieces) -> spag_model::Result<()> {
        for index in 0..self.job.settings.n {
            let delta = Delta { role: Some("assistant"), content: Some(""), ..Delta::default() };
            self.head.push(ChoicePiece { index, delta, logprobs: None, finish_reason: None }, stream);
        }
        Ok(())
    }

    fn event(&mut self, sequence: usize, event: Event, stream: &mut Pieces) -> spag_model::Result<()> {
        if let Event::Token(TokenEvent { token, text }) = event {
            let log_probs = |top| LogProbs::of(vec![ChatLogProb::new(&self.model, &token, top)]);
            let logprobs = self.job.log_probs.map(log_probs);
            let delta = self.streams[sequence].push(&text);
            self.push(sequence, &delta, logprobs, stream);
        }
        Ok(())
    }

    fn finish(&mut self, sequence: usize, completion: &Completion, stream: &mut Pieces) {
        let rest = self.streams[sequence].finish();
        self.push(sequence, &rest, None, stream);
        let finish_reason = Some(finish_reason(completion.finish));
        self.head.push(ChoicePiece { index: sequence, delta: Delta::default(), logprobs: None, finish_reason }, stream);
    }
}
