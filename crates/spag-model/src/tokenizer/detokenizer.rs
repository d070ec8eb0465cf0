//! Text of tokens that arrive one by one.

use super::Tokenizer;
use crate::error::Result;

/// Decoders emit this character for incomplete UTF-8.
const REPLACEMENT: char = '\u{fffd}';

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
    ids: Vec<u32>,
    /// Index of the first token that is decoded together with the next.
    context: usize,
    /// Number of tokens whose text was returned.
    emitted: usize,
}

impl Detokenizer {
    /// Detokenizer of tokens that follow `prompt`, whose text is not returned.
    pub fn after(prompt: &[u32]) -> Self {
        Self { ids: prompt.to_vec(), context: 0, emitted: prompt.len() }
    }

    /// Appends a token and returns the new text, which may be empty.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> Result<String> {
        self.ids.push(id);
        let before = tokenizer.decode(&self.ids[self.context..self.emitted])?;
        let now = tokenizer.decode(&self.ids[self.context..])?;
        match now.strip_prefix(before.as_str()) {
            Some(new) if !new.is_empty() && !new.ends_with(REPLACEMENT) => {
                let new = new.to_owned();
                self.context = self.emitted;
                self.emitted = self.ids.len();
                Ok(new)
            }
            _ => Ok(String::new()),
        }
    }

    /// Returns the text held back. Incomplete characters become replacement characters.
    pub fn finish(&self, tokenizer: &Tokenizer) -> Result<String> {
        let before = tokenizer.decode(&self.ids[self.context..self.emitted])?;
        let now = tokenizer.decode(&self.ids[self.context..])?;
        Ok(now.strip_prefix(before.as_str()).unwrap_or_default().to_owned())
    }
}
