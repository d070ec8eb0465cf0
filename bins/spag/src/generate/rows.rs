//! The lines of `spag generate`: prompts, and what models say to them.

use serde::{Deserialize, Serialize};
use spag_io::{ChatMessage, ChatRole, PromptEnd, PromptText, ReasoningRule, TurnPrompt};
use spag_model::Completion;
use spag_model::generate::FinishReason;

/// A line of the input. Other keys are ignored.
#[derive(Deserialize, Serialize)]
#[serde(untagged, expecting = "an object with `prompt`, or with `messages` that each have `role` and `content`")]
pub(super) enum PromptRow {
    /// A text that the model continues.
    Plain { prompt: String },
    /// A chat that it answers, in its own template.
    Chat { messages: Vec<MessageRow> },
}

/// A message of a chat. Other keys are ignored.
#[derive(Deserialize, Serialize)]
pub(super) struct MessageRow {
    role: ChatRole,
    content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
}

impl PromptRow {
    /// The prompt. Special tokens are matched in a text, and never in messages.
    pub(super) fn prompt(&self) -> TurnPrompt {
        match self {
            Self::Plain { prompt } => TurnPrompt::Plain(PromptText::own(prompt.clone())),
            Self::Chat { messages } => TurnPrompt::Chat(messages.iter().map(MessageRow::message).collect()),
        }
    }
}

impl MessageRow {
    fn message(&self) -> ChatMessage {
        let message = ChatMessage::new(self.role, PromptText::all_said(self.content.clone()));
        ChatMessage { reasoning: self.reasoning_content.clone(), ..message }
    }
}

/// A line of the output. As in the reference, `output_ids` ends with EOS if the model generated it.
#[derive(Serialize)]
pub(super) struct CompletionRow<'a> {
    #[serde(flatten)]
    prompt: &'a PromptRow,
    output_ids: &'a [u32],
    /// What is said.
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<String>,
    finish: FinishReason,
    cut_tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_log_probs: Option<&'a [f32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling_log_probs: Option<&'a [f32]>,
}

impl<'a> CompletionRow<'a> {
    /// The line of a completion of a prompt that ends so.
    pub(super) fn new(
        prompt: &'a PromptRow,
        completion: &'a Completion,
        (rule, end): (&ReasoningRule, PromptEnd),
        log_probs: bool,
    ) -> Self {
        let split = rule.split(&completion.text, end);
        Self {
            prompt,
            output_ids: &completion.token_ids,
            text: split.utterance.unwrap_or_default(),
            reasoning: split.reasoning,
            finish: completion.finish,
            cut_tokens: completion.truncated_tokens,
            model_log_probs: log_probs.then_some(&completion.model_log_probs),
            sampling_log_probs: log_probs.then_some(&completion.sampling_log_probs),
        }
    }
}

/// The line of a prompt without a completion.
#[derive(Serialize)]
pub(super) struct FailedRow<'a> {
    #[serde(flatten)]
    pub(super) prompt: &'a PromptRow,
    pub(super) error: &'a str,
}
