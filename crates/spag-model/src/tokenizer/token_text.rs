//! The text of single tokens, and of texts whose special tokens are shown: what servers and their clients ask for.

use super::{REPLACEMENT, Tokenizer};
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

    /// A token as it is written in the vocabulary, e.g. `▁the`, `Ġthe` or `</s>`; `None` for ids beyond it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.encoder.token(id)
    }

    /// The bytes that a token stands for within a text: of `▁the` and `Ġthe` a blank and `the`, of a special token its
    /// name, of a byte token that byte. An id beyond the vocabulary has none.
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

    /// The text of a token after another one, because decoders drop a blank at the start of a text.
    fn text_after_anchor(&self, id: u32) -> Option<String> {
        let anchor = *self.encode_text("a").ok()?.last()?;
        let before = self.decode(&[anchor]).ok().filter(|text| !text.is_empty() && !text.contains(REPLACEMENT))?;
        Some(self.decode(&[anchor, id]).ok()?.strip_prefix(&before)?.to_owned())
    }

    /// Decodes `ids` with the names of special tokens, which [`Tokenizer::decode`] skips.
    ///
    /// # Errors
    /// Tokens that this tokenizer cannot decode.
    pub fn decode_with_special(&self, ids: &[u32]) -> Result<String> {
        self.attempt("decode", || self.encoder.decode_with_special(ids))
    }
}

/// The byte of a token like `<0x0A>`.
pub(super) fn byte_token(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    let hex = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if hex { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// The bytes of a token of a byte-level vocabulary, where each character is a byte: visible ones of Latin-1 are themselves,
/// and the other 68 are the characters from U+0100 on.
fn byte_level(piece: &str) -> Option<Vec<u8>> {
    let is_visible = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    piece
        .chars()
        .map(|c| match u8::try_from(u32::from(c)) {
            Ok(byte) => is_visible(byte).then_some(byte),
            Err(_) => (0..=u8::MAX).filter(|byte| !is_visible(*byte)).nth(usize::try_from(c).ok()?.checked_sub(0x100)?),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_two_hexadecimal_digits() {
        assert_eq!((byte_token("<0x0A>"), byte_token("<0xfF>")), (Some(10), Some(255)));
        for other in ["<0x>", "<0x+1>", "<0x100>", "0x0A", "<0xé>", "<0x0A"] {
            assert_eq!(byte_token(other), None, "{other}");
        }
    }

    #[test]
    fn byte_tokens_and_byte_level_characters_are_bytes() {
        assert_eq!(byte_token("<0x0A>"), Some(b'\n'));
        assert_eq!((byte_token("<0x0a1>"), byte_token("<s>"), byte_token("<0x>")), (None, None, None));
        assert_eq!(byte_level("Ġthe"), Some(b" the".to_vec()));
        assert_eq!(byte_level("Ċé"), Some(vec![b'\n', 0xe9]));
        assert_eq!(byte_level("ł"), Some(vec![0xa0]), "the blank that does not break");
        assert_eq!((byte_level("\u{fffd}"), byte_level("\u{ad}")), (None, None));
    }
}
