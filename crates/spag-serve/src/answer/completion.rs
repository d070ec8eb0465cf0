//! Responses of `/v1/completions`.

use std::sync::Arc;

use serde::Serialize;
use spag_model::Completion;
use spag_model::generate::{Event, TokenEvent, TokenLogProb};
use spag_model::tokenizer::Detokenizer;

use super::{Answer, Head, Pieces, generated};
use crate::api::{ApiError, CompletionJob, Echo, LegacyBuilder, LegacyLogProbs};
use crate::engine_thread::finish_reason;
use crate::model::ServedModel;

const OBJECT: &str = "text_completion";

/// A completion, or a chunk of one, in the response format.
#[derive(Debug, Serialize)]
struct Choice {
    index: usize,
    text: String,
    logprobs: Option<LegacyLogProbs>,
    finish_reason: Option<&'static str>,
}

/// The answer to a completion request.
pub(crate) struct CompletionAnswer {
    model: Arc<ServedModel>,
    job: CompletionJob,
    head: Head,
    /// Log-probabilities of each streamed sequence.
    builders: Vec<Option<LegacyBuilder>>,
}

impl CompletionAnswer {
    /// An answer without any choices yet.
    pub(crate) fn new(model: Arc<ServedModel>, job: CompletionJob, head: Head) -> Self {
        let prompt = job.prompts.iter().map(|prompt| prompt.tokens.len()).sum();
        let head = head.of(OBJECT, job.settings.delivery, prompt);
        let sequences = job.prompts.len() * job.settings.n;
        let mut answer = Self { model, job, head, builders: Vec::new() };
        answer.builders = (0..sequences).map(|at| answer.builder(at)).collect();
        answer
    }

    fn choices(&mut self, completions: &[Completion]) -> spag_model::Result<Vec<Choice>> {
        let mut choices = Vec::with_capacity(self.builders.len());
        for at in 0..self.builders.len() {
            let mut text = self.echoed(at)?;
            let (mut log_probs, mut finish) = (None, "length");
            if let Some(completion) = completions.get(at) {
                self.head.count(completion);
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
            choices.push(Choice { index: at, text, logprobs: log_probs, finish_reason: Some(finish) });
        }
        Ok(choices)
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
            Echo::Nothing => Detokenizer::continuing(self.model.tokenizer(), tokens),
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
}

impl Answer for CompletionAnswer {
    fn head(&mut self) -> &mut Head {
        &mut self.head
    }

    fn body(mut self, completions: &[Completion]) -> Result<String, ApiError> {
        let choices = self.choices(completions).map_err(|error| ApiError::server(error.to_string()))?;
        self.head.whole(OBJECT, &choices)
    }

    fn begin(&mut self, stream: &mut Pieces) -> spag_model::Result<()> {
        // With log-probabilities, the prompt is sent once they are computed.
        if self.job.echo == Echo::Prompt && self.job.log_probs.is_none() {
            for at in 0..self.builders.len() {
                let finish = self.job.is_echo_only().then_some("length");
                let text = self.echoed(at)?;
                self.head.push(Choice { index: at, text, logprobs: None, finish_reason: finish }, stream);
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
        let logprobs = self.job.log_probs.map(|_| lists);
        if !text.is_empty() || logprobs.is_some() {
            self.head.push(Choice { index: sequence, text, logprobs, finish_reason: None }, stream);
        }
        Ok(())
    }

    fn finish(&mut self, sequence: usize, completion: &Completion, stream: &mut Pieces) {
        let finish_reason = Some(finish_reason(completion.finish));
        self.head.push(Choice { index: sequence, text: String::new(), logprobs: None, finish_reason }, stream);
    }
}
