//! Texts of single tokens, and decoding with special tokens, for servers and their clients.

use super::Tokenizer;
use super::bytes::{REPLACEMENT, byte_level, byte_token};
use crate::error::Result;

impl Tokenizer {
    /// A file of the tokenizer's folder as it was read, such as `tokenizer_config.json` or `chat_template.jinja`.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.iter().find(|(found, _)| found == name).map(|(_, contents)| contents.as_slice())
    }

    /// The special tokens: ids and texts, in no particular order.
    pub fn special_tokens(&self) -> impl Iterator<Item = (u32, &str)> {
        self.encoder.special.iter().map(|(id, text)| (*id, text.as_str()))
    }

    /// A token as spelled in the vocabulary, e.g. `▁the`, `Ġthe` or `</s>`; `None` for ids beyond it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.encoder.token(id)
    }

    /// The token that is spelled so in the vocabulary.
    pub fn token_id(&self, piece: &str) -> Option<u32> {
        self.encoder.plain.token_to_id(piece)
    }

    /// The bytes that a token adds to a text: a blank and `the` for `▁the` and `Ġthe`, its name for a special token,
    /// the byte for a byte token. Ids beyond the vocabulary have none.
    pub fn token_bytes(&self, id: u32) -> Vec<u8> {
        let Some(piece) = self.encoder.token(id) else { return Vec::new() };
        if self.encoder.special.contains_key(&id) {
            return piece.into_bytes();
        }
        match self.text_after_anchor(id).filter(|text| !text.contains(REPLACEMENT)) {
            Some(text) => text.into_bytes(),
            None => byte_token(&piece)
                .map(|byte| vec![byte])
                .or_else(|| byte_level(&piece))
                .unwrap_or_else(|| piece.into_bytes()),
        }
    }

    /// The text of a token after another token, because decoders drop a blank at the start of a text.
    fn text_after_anchor(&self, id: u32) -> Option<String> {
        let anchor = *self.encode_text("a").ok()?.last()?;
        let before = self.decode(&[anchor]).ok().filter(|text| !text.is_empty() && !text.contains(REPLACEMENT))?;
        Some(self.decode(&[anchor, id]).ok()?.strip_prefix(&before)?.to_owned())
    }

    /// Decodes `ids` including special tokens, which [`Tokenizer::decode`] skips.
    ///
    /// # Errors
    /// The tokenizer cannot decode the tokens.
    pub fn decode_with_special(&self, ids: &[u32]) -> Result<String> {
        self.attempt("decode", || self.encoder.decode_with_special(ids))
    }
}
