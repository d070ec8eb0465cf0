//! Texts of single tokens, for log-probabilities.

use std::sync::OnceLock;

use spag_model::Tokenizer;

/// The bytes of each token, computed once.
pub(crate) struct TokenTexts {
    tokenizer: Tokenizer,
    bytes: Box<[OnceLock<Box<[u8]>>]>,
}

impl TokenTexts {
    /// The texts of the tokens below `vocabulary`.
    pub(crate) fn new(tokenizer: Tokenizer, vocabulary: usize) -> Self {
        Self { tokenizer, bytes: std::iter::repeat_with(OnceLock::new).take(vocabulary).collect() }
    }

    /// The bytes of a token.
    pub(crate) fn bytes(&self, token: u32) -> &[u8] {
        let cell = usize::try_from(token).ok().and_then(|at| self.bytes.get(at));
        cell.map_or(&[], |cell| cell.get_or_init(|| self.tokenizer.token_bytes(token).into()))
    }

    /// The text of a token. Partial characters are written as in OpenAI's API: `bytes:\xe2\x82`.
    pub(crate) fn text(&self, token: u32) -> String {
        let bytes = self.bytes(token);
        match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().fold("bytes:".into(), |text: String, byte| format!("{text}\\x{byte:02x}")),
        }
    }
}
