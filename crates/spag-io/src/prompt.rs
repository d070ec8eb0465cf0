//! Prompts as written by games, stored in samples and encoded for models: a text or a chat that tracks which parts
//! players said.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::display::quote;

/// How a game is formatted as a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptFormat {
    /// Plain text, as in the reference.
    #[default]
    Plain,
    /// Messages, formatted by the model's chat template.
    Chat,
}

impl PromptFormat {
    /// The name on command lines and in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Chat => "chat",
        }
    }

    /// Whether it is the default, which records omit.
    pub fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

impl fmt::Display for PromptFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PromptFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "plain" => Ok(Self::Plain),
            "chat" => Ok(Self::Chat),
            other => Err(format!("unknown prompt format {:?}; use plain or chat", quote(other))),
        }
    }
}

/// A text that tracks which parts players said: utterances and target words. The rest (wordings, templates) is the
/// operator's.
///
/// Special tokens of a tokenizer are matched only in the operator's parts, so players cannot inject them.
///
/// ```
/// let mut prompt = spag_io::PromptText::default();
/// prompt.push("<|user|>");
/// prompt.push_said("Is it <|end|>?");
/// assert_eq!((prompt.text(), prompt.said()), ("<|user|>Is it <|end|>?", &[8..22][..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptText {
    text: String,
    /// Byte ranges: sorted, disjoint, non-empty, at character boundaries.
    said: Vec<Range<usize>>,
}

impl PromptText {
    /// Characters, one of which occurs in every special token that is matched in the operator's parts: `<|im_end|>`, `[INST]`.
    /// Others, such as a full stop for padding, are indistinguishable from text.
    pub const SPECIAL: [char; 2] = ['<', '['];

    /// A text of the operator only.
    pub fn own(text: impl Into<String>) -> Self {
        Self { text: text.into(), said: Vec::new() }
    }

    /// A text said entirely by a player.
    pub fn all_said(text: impl Into<String>) -> Self {
        let mut all = Self::default();
        all.push_said(&text.into());
        all
    }

    /// A text with the byte ranges that players said.
    ///
    /// # Errors
    /// The ranges overlap or are not in order, or one is empty, ends after the text or lies within a character.
    pub fn new(text: String, said: Vec<Range<usize>>) -> Result<Self, String> {
        let mut from = 0;
        for range in &said {
            if range.start < from || text.get(range.clone()).is_none_or(str::is_empty) {
                return Err(format!(
                    "`said` has {}–{}; expected ranges of bytes of the text, in order and between characters",
                    range.start, range.end
                ));
            }
            from = range.end;
        }
        Ok(Self { text, said })
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text without the ranges.
    pub fn into_text(self) -> String {
        self.text
    }

    /// The byte ranges that players said, in order.
    pub fn said(&self) -> &[Range<usize>] {
        &self.said
    }

    /// A part of the text, with what players said in it.
    pub fn part(&self, range: Range<usize>) -> Self {
        let text = self.text.get(range.clone()).unwrap_or_default().to_owned();
        let within = |said: &Range<usize>| said.start.max(range.start)..said.end.min(range.end);
        let said = self.said.iter().map(within).filter(|said| said.start < said.end);
        Self { text, said: said.map(|said| said.start - range.start..said.end - range.start).collect() }
    }

    /// The first part of a byte range that players said.
    pub fn said_within(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let next = self.said.partition_point(|said| said.end <= range.start);
        let said = self.said.get(next).filter(|said| said.start < range.end)?;
        Some(said.start.max(range.start)..said.end.min(range.end))
    }

    /// Whether the operator's parts contain a character of [`PromptText::SPECIAL`]. If not, no special token is
    /// matched.
    pub fn may_have_special_tokens(&self) -> bool {
        self.text.match_indices(Self::SPECIAL).any(|(at, mark)| self.said_within(&(at..at + mark.len())).is_none())
    }

    /// Appends operator text.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends player text.
    pub fn push_said(&mut self, text: &str) {
        let start = self.text.len();
        self.text.push_str(text);
        if !text.is_empty() {
            self.said.push(start..self.text.len());
        }
    }

    /// Appends a prompt.
    pub fn append(&mut self, more: &Self) {
        let start = self.text.len();
        self.text.push_str(&more.text);
        self.said.extend(more.said.iter().map(|said| said.start + start..said.end + start));
    }

    /// Removes the last character if it is `last`.
    pub fn pop_if(&mut self, last: char) {
        if self.text.ends_with(last) {
            self.text.pop();
            let end = self.text.len();
            self.said.retain_mut(|said| {
                said.end = said.end.min(end);
                said.start < said.end
            });
        }
    }
}

/// The role of a message's author.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatRole {
    /// The operator.
    System,
    /// The other player.
    User,
    /// The model.
    Assistant,
}

impl ChatRole {
    /// The name in templates and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A message of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// Its author.
    pub role: ChatRole,
    /// Its text.
    pub content: PromptText,
    /// What its author, the model, thought before, if the prompt shows it.
    pub reasoning: Option<String>,
}

impl ChatMessage {
    /// A message.
    pub fn new(role: ChatRole, content: PromptText) -> Self {
        Self { role, content, reasoning: None }
    }
}

/// The prompt of a turn: the game from a player's view. Built by the wordings, encoded by `spag-chat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnPrompt {
    /// A text that the model continues.
    Plain(PromptText),
    /// Messages that the model answers. The last one has the user role.
    Chat(Vec<ChatMessage>),
}

impl TurnPrompt {
    /// Its format.
    pub fn format(&self) -> PromptFormat {
        match self {
            Self::Plain(_) => PromptFormat::Plain,
            Self::Chat(_) => PromptFormat::Chat,
        }
    }

    /// The text, or the texts of the messages, one per line.
    pub fn text(&self) -> String {
        match self {
            Self::Plain(prompt) => prompt.text().to_owned(),
            Self::Chat(messages) => {
                messages.iter().map(|message| message.content.text()).collect::<Vec<_>>().join("\n")
            }
        }
    }
}

/// A file of prompt wordings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wordings {
    /// Its path, or `built-in`.
    pub file: String,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
    /// The format of the prompts; absent if plain.
    #[serde(default, skip_serializing_if = "PromptFormat::is_plain")]
    pub format: PromptFormat,
}

impl Wordings {
    /// Whether two wordings produce the same prompts, regardless of their paths.
    pub fn are_those_of(&self, other: &Self) -> bool {
        (&self.sha256, self.format) == (&other.sha256, other.format)
    }
}

impl std::fmt::Display for Wordings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let format = if self.format.is_plain() { "" } else { " as a chat" };
        write!(f, "{}{format} (SHA-256 {:.12}…)", crate::quote(&self.file), crate::quote(&self.sha256))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_outside_the_text_or_out_of_order_are_refused() {
        let new = |said: Vec<Range<usize>>| PromptText::new("aé b".into(), said);
        assert_eq!(new(vec![0..1, 1..3]).unwrap().said(), [0..1, 1..3]);
        let backwards = Range { start: 3, end: 1 };
        for said in
            [vec![0..6], vec![0..2], vec![2..3], vec![1..1], vec![1..3, 0..1], vec![0..3, 1..4], vec![backwards]]
        {
            let why = new(said.clone()).unwrap_err();
            assert!(why.contains("`said` has"), "{said:?}: {why}");
        }
        assert!(new(vec![usize::MAX - 1..usize::MAX]).is_err());
    }

    #[test]
    fn parts_keep_their_places() {
        let mut prompt = PromptText::own("a<");
        prompt.push_said("");
        prompt.append(&PromptText::all_said("b."));
        assert_eq!(prompt, PromptText::new("a<b.".into(), vec![2..4]).unwrap());
        assert_eq!((prompt.said_within(&(0..3)), prompt.said_within(&(0..2))), (Some(2..3), None));
        prompt.pop_if('.');
        prompt.pop_if('.');
        assert_eq!(prompt, PromptText::new("a<b".into(), vec![2..3]).unwrap());
        let mut word = PromptText::all_said("x");
        word.pop_if('x');
        assert_eq!(word, PromptText::default());
    }

    #[test]
    fn only_own_parts_can_have_special_tokens() {
        assert!(PromptText::own("a <s>").may_have_special_tokens());
        assert!(PromptText::new("[a]".into(), vec![1..3]).unwrap().may_have_special_tokens());
        assert!(!PromptText::all_said("<s>[").may_have_special_tokens());
        assert!(!PromptText::own("### Rules: `x`").may_have_special_tokens());
    }

    #[test]
    fn formats_have_names() {
        for format in [PromptFormat::Plain, PromptFormat::Chat] {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert!("Chat".parse::<PromptFormat>().unwrap_err().contains("use plain or chat"));
    }
}
