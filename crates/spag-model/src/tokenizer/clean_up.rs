//! The blank clean-up of transformers' `decode`.

use serde_json::Value;

/// Whether transformers removes blanks before punctuation when decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CleanUp {
    On,
    Off,
}

/// Replacements of the clean-up, in order.
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
    /// The setting of a `tokenizer_config.json`. If absent, transformers cleans up, except for LLaMA tokenizers, which
    /// are also the default class.
    pub(super) fn of(config: Option<&Value>) -> Self {
        let key = |key: &str| config.and_then(|config| config.get(key));
        let on = key("clean_up_tokenization_spaces").and_then(Value::as_bool).unwrap_or_else(|| {
            let class = key("tokenizer_class").and_then(Value::as_str);
            class.is_some_and(|class| !["Llama", "CodeLlama", "Gemma"].iter().any(|family| class.starts_with(family)))
        });
        if on { Self::On } else { Self::Off }
    }

    pub(super) fn apply(self, text: String) -> String {
        match self {
            Self::Off => text,
            Self::On => REPLACED.iter().fold(text, |text, (from, to)| text.replace(from, to)),
        }
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
