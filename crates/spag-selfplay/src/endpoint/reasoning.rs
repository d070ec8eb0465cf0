//! How an endpoint thinks before it speaks: the tokens that it gets for it, and what of its messages is said.

use spag_chat::{ReasoningSettings, TemplateSettings};
use spag_game::{Said, UtteranceRule};
use spag_io::{PromptEnd, PromptFormat, ReasoningFormat, ReasoningRule, TurnPrompt};

use super::config::EndpointConfig;
use super::spec::PromptStyle;

/// The parts of a message as the server separates them.
#[derive(Debug)]
pub(super) struct Message {
    /// What the server calls reasoning, without blanks at both ends; `None` if that is empty.
    pub(super) reasoning: Option<String>,
    /// The rest, in which there may be reasoning too.
    pub(super) content: Option<String>,
}

impl EndpointConfig {
    /// The same settings for a model that thinks before it speaks, and whose chat template has these variables, in prompts of a kind.
    #[must_use]
    pub fn with_reasoning(
        self,
        template: &TemplateSettings,
        reasoning: &ReasoningSettings,
        prompts: PromptFormat,
    ) -> Self {
        Self { template: template.clone(), reasoning: reasoning.clone(), prompts, ..self }
    }

    fn reasoning_format(&self) -> ReasoningFormat {
        self.reasoning.format(self.prompts)
    }

    /// What splits the content of messages. The model's template and vocabulary are unknown, so `auto` looks for the tags.
    fn reasoning_rule(&self) -> ReasoningRule {
        self.reasoning_format().rule(self.template.reasoning_tags.clone())
    }

    /// How later prompts show the player's own reasoning, if they do.
    pub(super) fn kept_reasoning(&self) -> Option<ReasoningRule> {
        self.reasoning.keep_reasoning.then(|| self.reasoning_rule())
    }

    /// Maximum tokens of a completion. Protocols have one limit for reasoning and utterance together; a model that is not known to think
    /// keeps that of an utterance.
    pub(super) fn completion_tokens(&self) -> usize {
        match (self.reasoning_format(), self.reasoning.max_reasoning_tokens) {
            (ReasoningFormat::None, _) | (ReasoningFormat::Auto, None) => self.max_tokens,
            // The number of positions of the model is unknown.
            _ => self.max_tokens.saturating_add(self.reasoning.tokens(usize::MAX)),
        }
    }

    /// What a message says, and the reasoning before it: that which the server separates, then that of the content. `None` if the message
    /// has no text.
    pub(super) fn said(&self, message: Message, (style, prompt): (PromptStyle, &TurnPrompt)) -> Option<Said> {
        let Message { reasoning, content } = message;
        let rule = self.reasoning_rule();
        if rule == ReasoningRule::None {
            return content.map(Said::from);
        }
        // A message of reasoning alone ended within it.
        let content = content.or_else(|| reasoning.as_ref().map(|_| String::new()))?;
        let end = match (&rule, style, prompt) {
            (ReasoningRule::Think(tags), PromptStyle::Completion, TurnPrompt::Plain(text)) => {
                tags.end_of_prompt(text.text())
            }
            _ => PromptEnd::Plain,
        };
        // All rules of utterances agree here, since what is split has no blanks at its ends.
        let said = UtteranceRule::Message.said(&content, &rule, end);
        let parts: Vec<String> = [reasoning, said.reasoning].into_iter().flatten().collect();
        if self.reasoning_format() == ReasoningFormat::Auto && parts.is_empty() && said.text == content.trim() {
            // Nothing tells of reasoning, so the model has none.
            return Some(content.into());
        }
        Some(Said { reasoning: (!parts.is_empty()).then(|| parts.join("\n")), ..said })
    }
}
