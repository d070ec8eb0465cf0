//! Reasoning between tags, found while a text grows.

use super::{PromptEnd, ReasoningTags, SplitCompletion, part};

/// Where a growing completion stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// It is empty, or what may be the beginning of the opening tag.
    Begun,
    /// In reasoning that was opened.
    Reasoning,
    /// In a text that nothing opened: an utterance, unless a closing tag follows.
    Unopened,
    /// After the closing tag, which ends at this byte.
    Closed(usize),
}

/// Finds the tags in a text that grows at its end. Each byte is searched once, apart from beginnings of tags.
#[derive(Clone, Debug)]
pub struct ReasoningScan {
    pub(super) tags: ReasoningTags,
    prompt: PromptEnd,
    stand: Stand,
    /// Where reasoning begins.
    pub(super) from: usize,
    /// Bytes without a closing tag.
    searched: usize,
}

impl ReasoningScan {
    /// The scan of an empty completion of a prompt.
    pub fn new(tags: ReasoningTags, prompt: PromptEnd) -> Self {
        Self { tags, prompt, stand: Stand::Begun, from: 0, searched: 0 }
    }

    /// Where the completion stands, of which `text` is all so far: that of the last call, and more.
    pub fn push(&mut self, text: &str) -> Stand {
        if self.stand == Stand::Begun {
            let begun = text.trim_start();
            if begun.starts_with(&self.tags.open) {
                self.from = text.len() - begun.len() + self.tags.open.len();
                (self.stand, self.searched) = (Stand::Reasoning, self.from);
            } else if !self.tags.open.starts_with(begun) {
                self.stand = self.unopened();
            }
        }
        if matches!(self.stand, Stand::Reasoning | Stand::Unopened) {
            let close = &self.tags.close;
            match text.get(self.searched..).and_then(|rest| rest.find(close)) {
                Some(at) => self.stand = Stand::Closed(self.searched + at + close.len()),
                None => {
                    let searched = text.len().saturating_sub(close.len() - 1).max(self.searched);
                    let is_boundary = |at: &usize| text.is_char_boundary(*at);
                    self.searched = (self.searched..=searched).rev().find(is_boundary).unwrap_or(self.searched);
                }
            }
        }
        self.stand
    }

    /// Where a text stands that does not begin with the opening tag.
    fn unopened(&self) -> Stand {
        match self.prompt {
            PromptEnd::Opened => Stand::Reasoning,
            PromptEnd::Plain => Stand::Unopened,
        }
    }
}

/// The parts of a whole completion.
pub(super) fn split(tags: &ReasoningTags, text: &str, prompt: PromptEnd) -> SplitCompletion {
    let mut scan = ReasoningScan::new(tags.clone(), prompt);
    let stand = match scan.push(text) {
        Stand::Begun => scan.unopened(),
        stand => stand,
    };
    match stand {
        Stand::Closed(end) => {
            let reasoning = &text[scan.from..end - tags.close.len()];
            SplitCompletion { reasoning: part(reasoning), utterance: part(&text[end..]) }
        }
        Stand::Reasoning => SplitCompletion { reasoning: part(&text[scan.from..]), utterance: None },
        Stand::Begun | Stand::Unopened => SplitCompletion { reasoning: None, utterance: part(text) },
    }
}
