//! How a model writes its reasoning.

use serde_json::json;
use spag_io::{PromptEnd, PromptText, ReasoningTags};

use crate::rendered::{Answer, variables};
use crate::template::ChatTemplate;
use crate::template_kwargs::TemplateKwargs;

/// The texts that a model writes around its reasoning: the tags with the line breaks beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasoningForm {
    /// Before reasoning.
    pub opening: String,
    /// After reasoning, before the utterance.
    pub closing: String,
}

impl ReasoningForm {
    /// The tags alone, as in plain prompts.
    pub fn plain(tags: &ReasoningTags) -> Self {
        Self { opening: tags.open().to_owned(), closing: tags.close().to_owned() }
    }

    /// The form of a chat template: what it writes around the reasoning of a message. One that drops reasoning is of a model that
    /// breaks lines after the opening tag, before the closing one, and twice after it, as those of Qwen3 and DeepSeek-R1.
    pub(crate) fn of_template(template: &ChatTemplate, tags: &ReasoningTags, kwargs: &TemplateKwargs) -> Self {
        let written = || {
            let answer = json!({"role": "assistant", "content": SAID, "reasoning_content": THOUGHT});
            let messages = [json!({"role": "user", "content": "."}), answer];
            let text = template.render(&messages, &variables(Answer::Absent, kwargs)).ok()?;
            let thought = text.find(THOUGHT)?;
            let opening = &text[text[..thought].rfind(tags.open())?..thought];
            let rest = &text[thought + THOUGHT.len()..];
            let closing = &rest[..rest.find(SAID)?];
            let is_form = opening.trim() == tags.open() && closing.trim() == tags.close();
            is_form.then(|| Self { opening: opening.to_owned(), closing: closing.to_owned() })
        };
        written().unwrap_or_else(|| Self {
            opening: format!("{}\n", tags.open()),
            closing: format!("\n{}\n\n", tags.close()),
        })
    }

    /// A completion of a prompt that ends so, as the model writes it: reasoning, if there is some, and what is said. The tags are the
    /// operator's.
    pub fn completion(&self, prompt: PromptEnd, reasoning: Option<&str>, said: &str) -> PromptText {
        let mut text = PromptText::default();
        if prompt == PromptEnd::Plain && reasoning.is_some() {
            text.push(&self.opening);
        }
        text.push_said(reasoning.unwrap_or_default());
        if prompt == PromptEnd::Opened || reasoning.is_some() {
            text.push(&self.closing);
        }
        text.push_said(said);
        text
    }
}

/// Texts that no template contains.
const THOUGHT: &str = "szqthought";
const SAID: &str = "szqsaid";
