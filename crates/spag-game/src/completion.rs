//! How the completion of a model becomes an utterance.

use serde::Deserialize;
use spag_io::{PromptEnd, PromptFormat, ReasoningRule};

use crate::episode::ReasoningEnd;
use crate::policy::Said;

/// How a model's completion becomes an utterance: the key `utterances` of a prompt file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UtteranceRule {
    /// As in the reference: prompt and completion are decoded together, and the text of the prompt is removed. Keeps the
    /// leading blank.
    #[default]
    AsDecoded,
    /// The completion is decoded alone, which drops the leading blank with the tokenizers of LLaMA.
    Trimmed,
    /// That of chats, whatever the file says: as trimmed, without blanks at both ends, which templates remove too.
    #[serde(skip_deserializing)]
    Message,
}

impl UtteranceRule {
    /// What a player says by a decoded completion of a prompt that ends so, and what it thought before. A completion that says
    /// nothing is an empty utterance.
    pub fn said(self, completion: &str, reasoning: &ReasoningRule, prompt: PromptEnd) -> Said {
        let split = reasoning.split(completion, prompt);
        let text = split.utterance.unwrap_or_default();
        let text = match self {
            Self::AsDecoded | Self::Trimmed => text,
            Self::Message => text.trim().to_owned(),
        };
        let is_silent = *reasoning != ReasoningRule::None && text.is_empty();
        let reasoning_end = is_silent.then_some(ReasoningEnd::Unfinished);
        Said { text, reasoning: split.reasoning, reasoning_end, ..Said::default() }
    }

    /// The format of the prompts that are answered by this rule.
    pub fn prompts(self) -> PromptFormat {
        match self {
            Self::AsDecoded | Self::Trimmed => PromptFormat::Plain,
            Self::Message => PromptFormat::Chat,
        }
    }

    /// The name in prompt files.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsDecoded => "as-decoded",
            Self::Trimmed => "trimmed",
            Self::Message => "message",
        }
    }
}
