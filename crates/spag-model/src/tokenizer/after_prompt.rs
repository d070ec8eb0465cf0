//! The text of a completion as the reference takes it, with the clean-up of blanks in transformers' `decode`.

use serde_json::Value;

use super::Tokenizer;
use crate::error::Result;

/// Whether transformers removes blanks before punctuation when it decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CleanUp {
    On,
    Off,
}

/// What the clean-up replaces, in its order.
const REPLACED: [(&str, &str); 10] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

impl CleanUp {
    /// The setting of a `tokenizer_config.json`. If it is absent, transformers cleans up, except with the tokenizers of
    /// LLaMA, which are also those of a folder that names no class.
    pub(super) fn of(config: Option<&Value>) -> Self {
        let key = |key: &str| config.and_then(|config| config.get(key));
        let on = key("clean_up_tokenization_spaces").and_then(Value::as_bool).unwrap_or_else(|| {
            let class = key("tokenizer_class").and_then(Value::as_str);
            class.is_some_and(|class| !["Llama", "CodeLlama", "Gemma"].iter().any(|family| class.starts_with(family)))
        });
        if on { Self::On } else { Self::Off }
    }

    fn apply(self, text: String) -> String {
        match self {
            Self::Off => text,
            Self::On => REPLACED.iter().fold(text, |text, (from, to)| text.replace(from, to)),
        }
    }
}

impl Tokenizer {
    /// The text of `completion` after `prompt` as the reference takes it: both are decoded together, special tokens
    /// skipped, the decoded text of `prompt` is removed wherever it occurs, and the rest ends before the first EOS that
    /// ordinary tokens spell. So a leading blank is kept, which decoding the completion alone drops.
    ///
    /// As in the reference, the text of the prompt stays if the decoded whole does not contain it, which happens only if
    /// the prompt ends within a character or before a blank that the clean-up removes.
    ///
    /// # Errors
    /// Tokens that this tokenizer cannot decode.
    pub fn decode_after(&self, prompt: &[u32], completion: &[u32]) -> Result<String> {
        let before = self.clean_up.apply(self.decode(prompt)?);
        let whole = self.clean_up.apply(self.decode(&[prompt, completion].concat())?);
        let mut text = if before.is_empty() { whole } else { whole.replace(&before, "") };
        if let Some(at) = self.eos_text().and_then(|eos| text.find(eos)) {
            text.truncate(at);
        }
        Ok(text)
    }

    /// Whether the last tokens of `completion` spell EOS. The completing token must have been appended just now: only a
    /// token whose text has the last character of EOS is looked at, since this is called for every token.
    pub(crate) fn spells_eos(&self, completion: &[u32]) -> Result<bool> {
        let (Some(eos), Some(token)) = (self.eos_text(), completion.last()) else { return Ok(false) };
        // In vocabularies of bytes, too, ASCII is spelled as it is.
        let last = eos.chars().next_back().filter(char::is_ascii_graphic);
        let piece = self.encoder.token(*token);
        if last.is_some_and(|last| piece.is_none_or(|piece| !piece.contains(last))) {
            return Ok(false);
        }
        // Other tokens have at least a byte each, except for a few that are skipped.
        let from = completion.len().saturating_sub(eos.len() + 8);
        Ok(self.decode(&completion[from..])?.contains(eos))
    }

    /// The text of the EOS token.
    fn eos_text(&self) -> Option<&str> {
        self.eos_text.as_deref().filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clean_up_is_the_setting_or_the_default_of_the_class() {
        for (config, expected) in [
            (json!({"clean_up_tokenization_spaces": true, "tokenizer_class": "LlamaTokenizer"}), CleanUp::On),
            (json!({"clean_up_tokenization_spaces": false, "tokenizer_class": "GPT2Tokenizer"}), CleanUp::Off),
            (json!({"tokenizer_class": "LlamaTokenizerFast"}), CleanUp::Off),
            (json!({"tokenizer_class": "PreTrainedTokenizerFast"}), CleanUp::On),
            (json!({}), CleanUp::Off),
        ] {
            assert_eq!(CleanUp::of(Some(&config)), expected, "{config}");
        }
        assert_eq!(CleanUp::of(None), CleanUp::Off);
    }

    #[test]
    fn clean_up_removes_blanks_before_punctuation() {
        let text = "I know , it 's a horse . Do n't you ? He said ' no ' !";
        assert_eq!(CleanUp::On.apply(text.into()), "I know, it's a horse. Don't you? He said'no '!");
        assert_eq!(CleanUp::Off.apply(text.into()), text);
    }
}
