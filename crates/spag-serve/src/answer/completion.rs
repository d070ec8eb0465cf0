//! Answers of `/v1/completions`.

use std::sync::Arc;

use serde_json::{Value, json};
use spag_model::{Completion, Detokenizer, Event, TokenEvent, TokenLogProb};

use super::{Head, Pieces, StreamedAnswer, Usage, finish_reason, generated};
use crate::api::{CompletionJob, Delivery, Echo, LegacyBuilder, LegacyLogProbs, StreamUsage};
use crate::model::ServedModel;

/// Tokens of a prompt that decide how the text after it begins, at most.
const CONTEXT_TOKENS: usize = 16;

/// An answer to a request for completions.
pub(crate) struct CompletionAnswer {
    model: Arc<ServedModel>,
    job: CompletionJob,
    head: Head,
    usage: Usage,
    /// Log-probabilities of each sequence that is streamed.
    builders: Vec<Option<LegacyBuilder>>,
}

impl CompletionAnswer {
    /// An answer without choices.
    pub(crate) fn new(model: Arc<ServedModel>, job: CompletionJob, head: Head) -> Self {
        let usage = Usage { prompt: job.prompts.iter().map(|prompt| prompt.tokens.len()).sum(), ..Usage::default() };
        let sequences = job.prompts.len() * job.settings.n;
        let mut answer = Self { model, job, head, usage, builders: Vec::new() };
        answer.builders = (0..sequences).map(|at| answer.builder(at)).collect();
        answer
    }

    /// The whole body. Without the engine's completions, prompts are echoed.
    ///
    /// # Errors
    /// The tokenizer cannot decode a prompt or a token.
    pub(crate) fn body(mut self, completions: &[Completion]) -> spag_model::Result<Value> {
        let mut choices = Vec::with_capacity(self.builders.len());
        for at in 0..self.builders.len() {
            let mut text = self.echoed(at)?;
            let (mut log_probs, mut finish) = (None, "length");
            if let Some(completion) = completions.get(at) {
                self.usage.add(completion);
                text.push_str(&completion.text);
                finish = finish_reason(completion.finish);
                let mut lists = LegacyLogProbs::default();
                if let Some(prompt) = &completion.prompt_log_probs {
                    self.push_prompt(at, prompt, &mut lists)?;
                }
                if self.job.log_probs.is_some() {
                    for token in &generated(completion) {
                        self.push(at, token.token, Some(token), &mut lists)?;
                    }
                    log_probs = Some(lists);
                }
            }
            choices.push(choice(at, &text, log_probs, Some(finish)));
        }
        let mut body = self.head.json("text_completion", choices);
        body["usage"] = self.usage.json();
        Ok(body)
    }

    fn prompt_of(&self, sequence: usize) -> &crate::api::PromptInput {
        &self.job.prompts[sequence / self.job.settings.n]
    }

    /// The text of the prompt, if it is echoed: as it was sent, or decoded.
    fn echoed(&self, sequence: usize) -> spag_model::Result<String> {
        let prompt = self.prompt_of(sequence);
        match (self.job.echo, &prompt.text) {
            (Echo::Nothing, _) => Ok(String::new()),
            (Echo::Prompt, Some(text)) => Ok(text.clone()),
            (Echo::Prompt, None) => self.model.tokenizer().decode(&prompt.tokens),
        }
    }

    fn builder(&self, sequence: usize) -> Option<LegacyBuilder> {
        let tokens = &self.prompt_of(sequence).tokens;
        let detokenizer = match self.job.echo {
            Echo::Prompt => Detokenizer::default(),
            Echo::Nothing => Detokenizer::after(&tokens[tokens.len().saturating_sub(CONTEXT_TOKENS)..]),
        };
        self.job.log_probs.map(|top| LegacyBuilder::new(detokenizer, top))
    }

    fn push(
        &mut self,
        sequence: usize,
        token: u32,
        chosen: Option<&TokenLogProb>,
        into: &mut LegacyLogProbs,
    ) -> spag_model::Result<()> {
        match &mut self.builders[sequence] {
            Some(builder) => builder.push(&self.model, token, chosen, into),
            None => Ok(()),
        }
    }

    fn push_prompt(
        &mut self,
        sequence: usize,
        log_probs: &[Option<TokenLogProb>],
        into: &mut LegacyLogProbs,
    ) -> spag_model::Result<()> {
        let tokens = self.prompt_of(sequence).tokens.clone();
        let mut each = tokens.into_iter().zip(log_probs);
        each.try_for_each(|(token, chosen)| self.push(sequence, token, chosen.as_ref(), into))
    }

    fn piece(&self, choice: Value) -> Value {
        self.with_usage(self.head.json("text_completion", vec![choice]), Value::Null)
    }

    fn with_usage(&self, mut piece: Value, usage: Value) -> Value {
        if self.job.settings.delivery == Delivery::Stream(StreamUsage::Sent) {
            piece["usage"] = usage;
        }
        piece
    }
}

impl StreamedAnswer for CompletionAnswer {
    fn begin(&mut self, stream: &mut Pieces) -> spag_model::Result<()> {
        // With log-probabilities, the prompt is sent when they are there.
        if self.job.echo == Echo::Prompt && self.job.log_probs.is_none() {
            for at in 0..self.builders.len() {
                let finish = self.job.is_echo_only().then_some("length");
                stream.push(&self.piece(choice(at, &self.echoed(at)?, None, finish)));
            }
        }
        Ok(())
    }

    fn event(&mut self, sequence: usize, event: Event, stream: &mut Pieces) -> spag_model::Result<()> {
        let mut lists = LegacyLogProbs::default();
        let text = match event {
            Event::Prompt(log_probs) => {
                self.push_prompt(sequence, &log_probs, &mut lists)?;
                self.echoed(sequence)?
            }
            Event::Token(TokenEvent { token, text }) => {
                self.push(sequence, token.token, Some(&token), &mut lists)?;
                text
            }
            Event::Finished(_) | Event::Failed(_) => return Ok(()),
        };
        let log_probs = self.job.log_probs.map(|_| lists);
        if !text.is_empty() || log_probs.is_some() {
            stream.push(&self.piece(choice(sequence, &text, log_probs, None)));
        }
        Ok(())
    }

    fn finish(&mut self, sequence: usize, completion: &Completion, stream: &mut Pieces) {
        self.usage.add(completion);
        stream.push(&self.piece(choice(sequence, "", None, Some(finish_reason(completion.finish)))));
    }

    fn end(&mut self, stream: &mut Pieces) {
        if self.job.settings.delivery == Delivery::Stream(StreamUsage::Sent) {
            stream.push(&self.with_usage(self.head.json("text_completion", Vec::new()), self.usage.json()));
        }
        stream.done();
    }
}

fn choice(index: usize, text: &str, log_probs: Option<LegacyLogProbs>, finish: Option<&str>) -> Value {
    json!({"index": index, "text": text, "logprobs": log_probs, "finish_reason": finish})
}
