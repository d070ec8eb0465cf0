//! How the completion of a model becomes an utterance.

use serde::Deserialize;

/// How a model's completion becomes an utterance: the key `utterances` of a prompt file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
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
    /// The utterance of a decoded completion.
    pub fn utterance(self, completion: String) -> String {
        match self {
            Self::AsDecoded | Self::Trimmed => completion,
            Self::Message => completion.trim().to_owned(),
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
