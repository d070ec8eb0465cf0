//! Tokens into text as they come.

use crate::error::Result;
use crate::tokenizer::Tokenizer;

/// What a decoder puts where bytes make no character (yet).
const REPLACEMENT: char = '\u{fffd}';

/// Turns tokens into text one by one; what it has said never changes and is never broken UTF-8.
///
/// A character may be spread over several tokens (byte fallback, byte-level pieces): its bytes are held back until it is
/// whole. And what a token says may depend on its neighbours (a leading blank is dropped at the start of a text), so a
/// token is decoded together with the few before it, and what these say alone is taken off.
///
/// All pieces and the [rest](Detokenizer::finish) together are the text of all tokens decoded at once.
#[derive(Clone, Debug, Default)]
pub struct Detokenizer {
    ids: Vec<u32>,
    /// First of the tokens that are decoded together with the next.
    context: usize,
    /// Tokens that have been said.
    said: usize,
}

impl Detokenizer {
    /// Takes one token more; returns what can be said now, often nothing.
    ///
    /// # Errors
    /// The decoder refuses the tokens.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Result<String> {
        self.ids.push(id);
        let before = tokenizer.decode(&self.ids[self.context..self.said])?;
        let now = tokenizer.decode(&self.ids[self.context..])?;
        match now.strip_prefix(before.as_str()) {
            Some(new) if !new.is_empty() && !new.ends_with(REPLACEMENT) => {
                let new = new.to_owned();
                self.context = self.said;
                self.said = self.ids.len();
                Ok(new)
            }
            _ => Ok(String::new()),
        }
    }

    /// What was held back: bytes that never became a character show as replacement characters.
    ///
    /// # Errors
    /// The decoder refuses the tokens.
    pub fn finish(&self, tokenizer: &Tokenizer) -> Result<String> {
        let before = tokenizer.decode(&self.ids[self.context..self.said])?;
        let now = tokenizer.decode(&self.ids[self.context..])?;
        Ok(now.strip_prefix(before.as_str()).unwrap_or_default().to_owned())
    }
}
