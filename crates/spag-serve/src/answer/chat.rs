//! Answers of `/v1/chat/completions`.

use std::sync::Arc;

use serde_json::{Value, json};
use spag_model::{Completion, Event, TokenEvent};

use super::{Head, Pieces, StreamedAnswer, Usage, finish_reason, generated};
use crate::api::{ChatJob, ChatLogProb, Delivery, StreamUsage};
use crate::model::ServedModel;

/// An answer in a conversation.
pub(crate) struct ChatAnswer {
    model: Arc<ServedModel>,
    job: ChatJob,
    head: Head,
    usage: Usage,
}

impl ChatAnswer {
    /// An answer without choices.
    pub(crate) fn new(model: Arc<ServedModel>, job: ChatJob, head: Head) -> Self {
        let usage = Usage { prompt: job.prompt.len(), ..Usage::default() };
        Self { model, job, head, usage }
    }

    /// The whole body.
    pub(crate) fn body(mut self, completions: &[Completion]) -> Value {
        let mut choices = Vec::with_capacity(completions.len());
        for (index, completion) in completions.iter().enumerate() {
            self.usage.add(completion);
            let log_probs = self.job.log_probs.map(|top| {
                let tokens = generated(completion);
                tokens.iter().map(|token| ChatLogProb::new(&self.model, token, top)).collect::<Vec<_>>()
            });
            choices.push(json!({
                "index": index,
                "message": {"role": "assistant", "content": completion.text, "refusal": null},
                "logprobs": log_probs.map(|content| json!({"content": content, "refusal": null})),
                "finish_reason": finish_reason(completion.finish),
            }));
        }
        let mut body = self.head.json("chat.completion", choices);
        body["usage"] = self.usage.json();
        body
    }

    fn piece(&self, index: usize, delta: Value, log_probs: Option<Vec<ChatLogProb>>, finish: Option<&str>) -> Value {
        let choice = json!({
            "index": index,
            "delta": delta,
            "logprobs": log_probs.map(|content| json!({"content": content, "refusal": null})),
            "finish_reason": finish,
        });
        self.with_usage(self.head.json("chat.completion.chunk", vec![choice]), Value::Null)
    }

    fn with_usage(&self, mut piece: Value, usage: Value) -> Value {
        if self.job.settings.delivery == Delivery::Stream(StreamUsage::Sent) {
            piece["usage"] = usage;
        }
        piece
    }
}

impl StreamedAnswer for ChatAnswer {
    fn begin(&mut self, stream: &mut Pieces) -> spag_model::Result<()> {
        for index in 0..self.job.settings.n {
            stream.push(&self.piece(index, json!({"role": "assistant", "content": ""}), None, None));
        }
        Ok(())
    }

    fn event(&mut self, sequence: usize, event: Event, stream: &mut Pieces) -> spag_model::Result<()> {
        if let Event::Token(TokenEvent { token, text }) = event {
            let log_probs = self.job.log_probs.map(|top| vec![ChatLogProb::new(&self.model, &token, top)]);
            if !text.is_empty() || log_probs.is_some() {
                stream.push(&self.piece(sequence, json!({"content": text}), log_probs, None));
            }
        }
        Ok(())
    }

    fn finish(&mut self, sequence: usize, completion: &Completion, stream: &mut Pieces) {
        self.usage.add(completion);
        stream.push(&self.piece(sequence, json!({}), None, Some(finish_reason(completion.finish))));
    }

    fn end(&mut self, stream: &mut Pieces) {
        if self.job.settings.delivery == Delivery::Stream(StreamUsage::Sent) {
            stream.push(&self.with_usage(self.head.json("chat.completion.chunk", Vec::new()), self.usage.json()));
        }
        stream.done();
    }
}
