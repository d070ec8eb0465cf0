//! Whether prompts begin with BOS, by the tokenizer's files or by request.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::roles::Roles;

/// Whether prompts, and samples to train on, begin with BOS: `--add_bos_token`, and the key `add_bos_token` of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<bool>", into = "Option<bool>")]
pub enum BosRule {
    /// As the tokenizer's own files say: `add_bos_token` of `tokenizer_config.json`, else the post-processor of
    /// `tokenizer.json`, else the tokenizer's class, of which LLaMA's begins with BOS.
    #[default]
    AsTokenizer,
    /// If the tokenizer has a BOS token.
    IfKnown,
    /// Never.
    Never,
}

impl BosRule {
    /// The value of the flag or key: `None` is [`BosRule::AsTokenizer`].
    pub fn flag(self) -> Option<bool> {
        match self {
            Self::AsTokenizer => None,
            Self::IfKnown => Some(true),
            Self::Never => Some(false),
        }
    }
}

impl From<Option<bool>> for BosRule {
    /// The rule of a flag or key that may be absent.
    fn from(flag: Option<bool>) -> Self {
        match flag {
            None => Self::AsTokenizer,
            Some(true) => Self::IfKnown,
            Some(false) => Self::Never,
        }
    }
}

impl From<BosRule> for Option<bool> {
    fn from(rule: BosRule) -> Self {
        rule.flag()
    }
}

/// transformers classes that add BOS unless their files say otherwise.
const CLASSES: [&str; 3] = ["LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer"];

/// Whether the files of a tokenizer request BOS. Without a class, transformers uses that of the model, which is LLaMA's for
/// most such files.
pub(super) fn is_added(roles: &Roles, first: &FirstToken, bos: &str) -> bool {
    if let Some(said) = roles.setting("add_bos_token").and_then(Value::as_bool) {
        return said;
    }
    match first {
        FirstToken::Special(token) => token == bos,
        FirstToken::OfText => false,
        FirstToken::Unknown => roles.class().is_none_or(|class| CLASSES.contains(&class)),
    }
}

/// The token that a post-processor prepends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum FirstToken {
    /// This special token.
    Special(String),
    /// None.
    OfText,
    /// No post-processor adds special tokens.
    #[default]
    Unknown,
}

impl FirstToken {
    /// Parses `post_processor` of a `tokenizer.json`.
    pub(super) fn of(processor: Option<&Value>) -> Self {
        let Some(processor) = processor else { return Self::Unknown };
        match processor.get("type").and_then(Value::as_str) {
            Some("Sequence") => {
                let parts = processor.get("processors").and_then(Value::as_array).into_iter().flatten();
                // Sequences within sequences add nothing in published files.
                let mut simple = parts.filter(|part| part.get("type").is_none_or(|kind| kind != "Sequence"));
                simple
                    .find_map(|part| Some(Self::of(Some(part))).filter(|first| *first != Self::Unknown))
                    .unwrap_or_default()
            }
            Some("TemplateProcessing") => {
                let Some(first) = processor.pointer("/single/0/SpecialToken/id").and_then(Value::as_str) else {
                    return Self::OfText;
                };
                // The template refers to an entry of this table, whose tokens are added.
                let mut token = processor.get("special_tokens");
                for key in [first, "tokens"] {
                    token = token.and_then(|found| found.get(key));
                }
                Self::Special(token.and_then(|list| list.get(0)).and_then(Value::as_str).unwrap_or(first).to_owned())
            }
            Some("BertProcessing" | "RobertaProcessing") => match processor.pointer("/cls/0").and_then(Value::as_str) {
                Some(token) => Self::Special(token.to_owned()),
                None => Self::OfText,
            },
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn first_token_is_read_from_every_kind_of_post_processor() {
        let template = |single: Value| {
            let tokens = json!({"b": {"id": "b", "ids": [1], "tokens": ["<s>"]}});
            json!({"type": "TemplateProcessing", "single": single, "special_tokens": tokens})
        };
        let begins = template(json!([{"SpecialToken": {"id": "b"}}, {"Sequence": {"id": "A"}}]));
        let ends = template(json!([{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "b"}}]));
        let special = |token: &str| FirstToken::Special(token.to_owned());
        for (processor, expected) in [
            (json!(null), FirstToken::Unknown),
            (json!({"type": "ByteLevel"}), FirstToken::Unknown),
            (begins.clone(), special("<s>")),
            (ends, FirstToken::OfText),
            (json!({"type": "Sequence", "processors": [{"type": "ByteLevel"}, begins]}), special("<s>")),
            (json!({"type": "Sequence", "processors": [{"type": "ByteLevel"}]}), FirstToken::Unknown),
            (json!({"type": "RobertaProcessing", "cls": ["<s>", 0]}), special("<s>")),
            (json!({"type": "TemplateProcessing", "single": 3}), FirstToken::OfText),
            (json!([1]), FirstToken::Unknown),
        ] {
            assert_eq!(FirstToken::of(Some(&processor)), expected, "{processor}");
        }
        assert_eq!(FirstToken::of(None), FirstToken::Unknown);
    }

    #[test]
    fn setting_comes_before_the_post_processor_and_that_before_the_class() {
        let bos = FirstToken::Special("<s>".into());
        for (config, first, added) in [
            (json!({"add_bos_token": false, "tokenizer_class": "LlamaTokenizer"}), &bos, false),
            (json!({"add_bos_token": true, "tokenizer_class": "GPT2Tokenizer"}), &FirstToken::OfText, true),
            (json!({"tokenizer_class": "GPT2Tokenizer"}), &bos, true),
            (json!({"tokenizer_class": "LlamaTokenizerFast"}), &FirstToken::OfText, false),
            (json!({"tokenizer_class": "LlamaTokenizer"}), &FirstToken::Special("</s>".into()), false),
            (json!({"tokenizer_class": "LlamaTokenizerFast"}), &FirstToken::Unknown, true),
            (json!({"tokenizer_class": "GPT2Tokenizer"}), &FirstToken::Unknown, false),
            (json!({"tokenizer_class": "PreTrainedTokenizerFast"}), &FirstToken::Unknown, false),
            (json!(null), &FirstToken::Unknown, true),
        ] {
            assert_eq!(is_added(&Roles::of_config(config.clone()), first, "<s>"), added, "{config} {first:?}");
        }
    }
}
