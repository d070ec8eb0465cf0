//! Incremental decoding of tokens.

use super::Tokenizer;
use super::bytes::REPLACEMENT;
use crate::error::Result;

/// Maximum prompt tokens that affect the start of the text after it.
const CONTEXT_TOKENS: usize = 16;

/// Incremental detokenizer. Returned text is final and always valid UTF-8.
///
/// A character can span several tokens (byte fallback, byte-level tokens); its bytes are held back until it is
/// complete. A token's text can depend on its neighbours (a leading blank is dropped at the start of a text), so each
/// token is decoded together with the few before it, and their text is removed from the result.
///
/// The concatenated pieces, including [`Detokenizer::finish`], equal the decoding of all tokens at once, or the part
/// after the prompt.
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    /// Tokens decoded together with the next one.
    window: Vec<u32>,
    /// Number of tokens of the window whose text was returned.
    emitted: usize,
    /// The text of the remaining tokens.
    held: String,
}

impl Detokenizer {
    /// A detokenizer of tokens that follow `prompt`, whose text is not returned.
    pub fn after(prompt: &[u32]) -> Self {
        Self { window: prompt.to_vec(), emitted: prompt.len(), held: String::new() }
    }

    /// [`Detokenizer::after`] with only the last tokens of `prompt` that have text.
    pub fn continuing(tokenizer: &Tokenizer, prompt: &[u32]) -> Self {
        Self::after(&tokenizer.context(prompt))
    }

    /// Appends a token and returns the new text, which may be empty.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Result<String> {
        // Such a token has no effect, even within a character.
        if !tokenizer.has_text(id) {
            return Ok(String::new());
        }
        self.window.push(id);
        let before = tokenizer.decode(&self.window[..self.emitted])?;
        self.held = after(tokenizer.decode(&self.window)?, &before);
        if self.held.is_empty() || self.held.ends_with(REPLACEMENT) || tokenizer.encoder.is_byte_of_run(id) {
            return Ok(String::new());
        }
        self.window.drain(..self.emitted);
        self.emitted = self.window.len();
        Ok(std::mem::take(&mut self.held))
    }

    /// The text held back, if it has no incomplete character.
    pub(crate) fn complete_held(&self) -> &str {
        if self.held.ends_with(REPLACEMENT) { "" } else { &self.held }
    }

    /// Returns the text held back. Incomplete characters become replacement characters.
    pub fn finish(self) -> String {
        self.held
    }
}

impl Tokenizer {
    /// The text that `completion` adds to `prompt`'s: all pieces of [`Detokenizer::continuing`] concatenated.
    ///
    /// # Errors
    /// The tokenizer cannot decode the tokens.
    pub fn decode_continued(&self, prompt: &[u32], completion: &[u32]) -> Result<String> {
        let context = self.context(prompt);
        Ok(after(self.decode(&[&context, completion].concat())?, &self.decode(&context)?))
    }

    /// The last tokens of a prompt that have text. More of a long prompt would not change the text after it.
    fn context(&self, prompt: &[u32]) -> Vec<u32> {
        let with_text = prompt.iter().rev().copied().filter(|id| self.has_text(*id));
        let mut last: Vec<u32> = with_text.take(CONTEXT_TOKENS).collect();
        last.reverse();
        last
    }
}

/// The part of `text` after `before`. If `before` ends within a character, that character is included.
fn after(text: String, before: &str) -> String {
    if before.is_empty() {
        return text;
    }
    let whole = before.trim_end_matches(REPLACEMENT);
    match text.strip_prefix(before).or_else(|| text.strip_prefix(whole)) {
        Some(rest) => rest.to_owned(),
        None => {
            let common = text.char_indices().zip(before.chars()).find(|((_, a), b)| a != b);
            common.map_or_else(String::new, |((at, _), _)| text[at..].to_owned())
        }
    }
}
