//! The text of a completion with the reference's decoding.

use super::Tokenizer;
use crate::error::Result;

impl Tokenizer {
    /// The text of `completion` after `prompt`, as in the reference: both are decoded together, skipping special
    /// tokens, the decoded text of `prompt` is removed wherever it occurs, and the rest ends before the first EOS
    /// spelled by ordinary tokens. This keeps a leading blank, which decoding the completion alone would drop.
    ///
    /// As in the reference, the prompt's text remains if the decoded whole does not contain it, which happens only if
    /// the prompt ends within a character or before a blank that the clean-up removes.
    ///
    /// # Errors
    /// The tokenizer cannot decode the tokens.
    pub fn decode_after(&self, prompt: &[u32], completion: &[u32]) -> Result<String> {
        let before = self.clean_up.apply(self.decode(prompt)?);
        let whole = self.clean_up.apply(self.decode(&[prompt, completion].concat())?);
        let mut text = if before.is_empty() { whole } else { whole.replace(&before, "") };
        if let Some(at) = self.eos_text().and_then(|eos| text.find(eos)) {
            text.truncate(at);
        }
        Ok(text)
    }

    /// Whether the last tokens of `completion` spell EOS. Call this right after appending the completing token: only a
    /// token whose text has the last character of EOS is checked, since this is called for every token.
    pub(crate) fn spells_eos(&self, completion: &[u32]) -> Result<bool> {
        let (Some(eos), Some(token)) = (self.eos_text(), completion.last()) else { return Ok(false) };
        // Byte-level vocabularies also spell ASCII literally.
        let last = eos.chars().next_back().filter(char::is_ascii_graphic);
        let piece = self.encoder.token(*token);
        if last.is_some_and(|last| piece.is_none_or(|piece| !piece.contains(last))) {
            return Ok(false);
        }
        // Other tokens have at least one byte each, except for a few that are skipped.
        let from = completion.len().saturating_sub(eos.len() + 8);
        Ok(self.decode(&completion[from..])?.contains(eos))
    }

    /// The text of the EOS token.
    fn eos_text(&self) -> Option<&str> {
        self.eos_text.as_deref().filter(|text| !text.is_empty())
    }
}
