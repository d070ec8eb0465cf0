//! Encodes prompts that contain text said by players.
//!
//! In the operator's parts (wordings and templates), special tokens are matched: `<|im_end|>` is the token. In what players
//! said they are not: the token would end the player's part, and the rest could pretend to be another's.

use std::ops::Range;

use spag_io::PromptText;

use super::Tokenizer;
use super::special_texts::SpecialTokens;
use crate::error::Result;

impl Tokenizer {
    /// The ranges of special tokens' texts, in order of their start. They may overlap.
    pub fn special_texts<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        self.encoder.special_texts.find(text)
    }

    /// The tokens of a prompt, with BOS if this tokenizer has one and the operator's part does not begin with it.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_said`].
    pub fn encode_said_prompt(&self, prompt: &PromptText) -> Result<Vec<u32>> {
        let ids = self.encode_said(prompt)?;
        let bos = self.bos().filter(|bos| ids.first() != Some(bos));
        Ok(bos.into_iter().chain(ids).collect())
    }

    /// Encodes a prompt without adding BOS or EOS. Special tokens are matched in the operator's parts, and only if one of
    /// these contains a character of [`PromptText::SPECIAL`]; what players said is text. Without special tokens of the
    /// operator, the result equals [`Tokenizer::encode_text`].
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_said(&self, prompt: &PromptText) -> Result<Vec<u32>> {
        let text = prompt.text();
        let (mut breaks, mut is_own) = (Vec::new(), false);
        for found in self.special_texts(text) {
            match prompt.said_within(&found) {
                Some(said) => breaks.push(within(text, &found, &said)),
                None => is_own |= text[found].contains(PromptText::SPECIAL),
            }
        }
        if !is_own {
            return self.encode_text(text);
        }
        if !self.encoder.is_literal {
            return self.encode_apart(prompt);
        }
        // Special tokens are matched between breaks; none spans a break.
        breaks.sort_unstable();
        let (mut ids, mut from) = (Vec::new(), 0);
        for end in breaks.into_iter().chain([text.len()]) {
            if let Some(part) = text.get(from..end).filter(|part| !part.is_empty()) {
                ids.extend(self.encode(part)?);
            }
            from = end;
        }
        Ok(ids)
    }

    /// Encodes each part separately, for tokenizers that normalize a text before matching special tokens, which may then be
    /// spelled differently.
    fn encode_apart(&self, prompt: &PromptText) -> Result<Vec<u32>> {
        let (mut ids, mut from) = (Vec::new(), 0);
        let end = prompt.text().len();
        for said in prompt.said().iter().cloned().chain([end..end]) {
            for (part, special) in [(from..said.start, SpecialTokens::Matched), (said.clone(), SpecialTokens::AsText)] {
                if !part.is_empty() {
                    ids.extend(self.encode_with(&prompt.text()[part], special)?);
                }
            }
            from = said.end;
        }
        Ok(ids)
    }
}

/// A position within a special token's text that is inside or at the edge of its said part, so that the operator's
/// tokens around it stay intact.
fn within(text: &str, found: &Range<usize>, said: &Range<usize>) -> usize {
    if said.start > found.start {
        return said.start;
    }
    found.start + text[found.clone()].chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_are_in_what_was_said() {
        assert_eq!(within("a<s>", &(1..4), &(1..4)), 2);
        assert_eq!(within("a<s>", &(1..4), &(2..4)), 2);
        assert_eq!(within("a<s>", &(1..4), &(3..4)), 3);
        assert_eq!(within("é<s>", &(0..5), &(0..2)), 2);
    }
}
