//! Text of tokens that arrive one by one.

use super::Tokenizer;
use super::bytes::REPLACEMENT;
use crate::error::Result;

/// Tokens of a prompt that decide how the text after it begins, at most.
const CONTEXT_TOKENS: usize = 16;

/// Incremental detokenizer. Text that was returned never changes and is always valid UTF-8.
///
/// A character can span several tokens (byte fallback, byte-level tokens); its bytes are held back until it is
/// complete. A token's text can depend on its neighbours (a leading blank is dropped at the start of a text), so each
/// token is decoded together with the few before it, and their text is removed from the result.
///
/// All returned pieces and [`Detokenizer::finish`] together equal the decoding of all tokens at once, or what follows the
/// prompt there.
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    /// The tokens that are decoded together with the next.
    window: Vec<u32>,
    /// Number of tokens of the window whose text was returned.
    emitted: usize,
    /// The text of the others.
    held: String,
}

impl Detokenizer {
    /// Detokenizer of tokens that follow `prompt`, whose text is not returned.
    pub fn after(prompt: &[u32]) -> Self {
        Self { window: prompt.to_vec(), emitted: prompt.len(), held: String::new() }
    }

    /// As [`Detokenizer::after`], with the last tokens of `prompt` that have text alone.
    pub fn continuing(tokenizer: &Tokenizer, prompt: &[u32]) -> Self {
        Self::after(&tokenizer.context(prompt))
    }

    /// Appends a token and returns the new text, which may be empty.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Result<String> {
        // Such a token changes nothing, also not within a character.
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
    /// What `completion` adds to the text of `prompt`: all pieces of [`Detokenizer::continuing`] together.
    ///
    /// # Errors
    /// Tokens that this tokenizer cannot decode.
    pub fn decode_continued(&self, prompt: &[u32], completion: &[u32]) -> Result<String> {
        let context = self.context(prompt);
        Ok(after(self.decode(&[&context, completion].concat())?, &self.decode(&context)?))
    }

    /// The last tokens of a prompt that have text. Decoding all of a long prompt would not change what follows it.
    fn context(&self, prompt: &[u32]) -> Vec<u32> {
        let with_text = prompt.iter().rev().copied().filter(|id| self.has_text(*id));
        let mut last: Vec<u32> = with_text.take(CONTEXT_TOKENS).collect();
        last.reverse();
        last
    }
}

/// What follows `before` in `text`. If `before` ends within a character, that character follows.
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
