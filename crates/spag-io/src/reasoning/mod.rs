//! Private reasoning: which part of a completion is reasoning, and which is said.

mod boxed;
mod scan;
mod stream;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::display::quote;
use crate::prompt::PromptFormat;

pub use scan::{ReasoningScan, Stand};
pub use stream::{ReasoningStream, SplitDelta};

/// How reasoning is told from what is said: the setting `reasoning`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningFormat {
    /// All of a completion is said.
    None,
    /// Reasoning stands between two tags at the beginning; what follows is said.
    Think,
    /// What is in the last `\boxed{…}` is said.
    Boxed,
    /// As `think` if the model's chat template or its vocabulary has the tags, else as `none`.
    Auto,
}

crate::named_choices!(ReasoningFormat);

impl ReasoningFormat {
    /// The format if none was chosen.
    pub fn default_of(prompts: PromptFormat) -> Self {
        match prompts {
            PromptFormat::Plain => Self::None,
            PromptFormat::Chat => Self::Auto,
        }
    }

    /// The rule of the format with these tags. `auto` looks for them.
    pub fn rule(self, tags: ReasoningTags) -> ReasoningRule {
        match self {
            Self::None => ReasoningRule::None,
            Self::Think | Self::Auto => ReasoningRule::Think(tags),
            Self::Boxed => ReasoningRule::Boxed,
        }
    }
}

/// The texts around reasoning, compared as written. As a text: both, with a blank between.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReasoningTags {
    open: String,
    close: String,
}

impl Default for ReasoningTags {
    /// `<think>` and `</think>`.
    fn default() -> Self {
        Self { open: "<think>".to_owned(), close: "</think>".to_owned() }
    }
}

impl ReasoningTags {
    /// Tags.
    ///
    /// # Errors
    /// One is empty or has blanks, both are equal, or one contains the other.
    pub fn new(open: impl Into<String>, close: impl Into<String>) -> Result<Self, String> {
        let (open, close) = (open.into(), close.into());
        let refused = |problem: &str| Err(format!("the tags {:?} and {:?} {problem}", quote(&open), quote(&close)));
        if open.is_empty() || close.is_empty() {
            return refused("are not two: one is empty");
        }
        if [&open, &close].iter().any(|tag| tag.contains(char::is_whitespace)) {
            return refused("have blanks");
        }
        if open == close {
            return refused("are equal, so that no end could be told from a beginning");
        }
        if open.contains(&close) || close.contains(&open) {
            return refused("contain each other");
        }
        Ok(Self { open, close })
    }

    /// The tag before reasoning.
    pub fn open(&self) -> &str {
        &self.open
    }

    /// The tag after reasoning.
    pub fn close(&self) -> &str {
        &self.close
    }

    /// Whether a completion of this prompt begins with reasoning: whether the prompt ends in the opening tag. Blanks after it do
    /// not count.
    pub fn end_of_prompt(&self, prompt: &str) -> PromptEnd {
        if prompt.trim_end().ends_with(&self.open) { PromptEnd::Opened } else { PromptEnd::Plain }
    }
}

impl fmt::Display for ReasoningTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.open, self.close)
    }
}

impl FromStr for ReasoningTags {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split(' ').collect::<Vec<_>>()[..] {
            [open, close] => Self::new(open, close),
            _ => Err(format!("{:?} is not two tags with a blank between, such as \"<think> </think>\"", quote(text))),
        }
    }
}

impl Serialize for ReasoningTags {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ReasoningTags {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Whether a prompt ends in the opening tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PromptEnd {
    /// It does not.
    #[default]
    Plain,
    /// It does, as with templates that make a model think.
    Opened,
}

/// What splits completions: a [`ReasoningFormat`] for one model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReasoningRule {
    /// All is said.
    #[default]
    None,
    /// Reasoning is between tags.
    Think(ReasoningTags),
    /// What is said is in the last `\boxed{…}`.
    Boxed,
}

/// The parts of a completion. `None` is an empty part, or one that is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SplitCompletion {
    /// What the player thought, without blanks at both ends.
    pub reasoning: Option<String>,
    /// What it says.
    pub utterance: Option<String>,
}

impl ReasoningRule {
    /// Splits a completion of a prompt that ends so.
    ///
    /// ```
    /// use spag_io::{PromptEnd, ReasoningRule, ReasoningTags};
    ///
    /// let rule = ReasoningRule::Think(ReasoningTags::default());
    /// let split = rule.split("<think>\nIt is tea.\n</think>\n\nIs it hot?", PromptEnd::Plain);
    /// assert_eq!((split.reasoning.as_deref(), split.utterance.as_deref()), (Some("It is tea."), Some("Is it hot?")));
    /// ```
    pub fn split(&self, text: &str, prompt: PromptEnd) -> SplitCompletion {
        match self {
            Self::None => SplitCompletion { reasoning: None, utterance: Some(text.to_owned()) },
            Self::Think(tags) => scan::split(tags, text, prompt),
            Self::Boxed => boxed::split(text),
        }
    }

    /// A completion of a plain prompt that [`ReasoningRule::split`] splits into these parts: tags without line breaks, or a box at
    /// the end.
    pub fn join(&self, reasoning: Option<&str>, utterance: &str) -> String {
        match (self, reasoning) {
            (Self::Think(tags), Some(reasoning)) => format!("{}{reasoning}{}{utterance}", tags.open, tags.close),
            (Self::Boxed, Some(reasoning)) => format!("{reasoning} \\boxed{{{utterance}}}"),
            (Self::Boxed, None) => format!("\\boxed{{{utterance}}}"),
            (Self::None, _) | (_, None) => utterance.to_owned(),
        }
    }
}

/// A text without blanks at both ends; `None` if nothing is left.
fn part(text: &str) -> Option<String> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}
