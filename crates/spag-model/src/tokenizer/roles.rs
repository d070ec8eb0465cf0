//! Special tokens: their names in a tokenizer's companion files, and the ids of `config.json`.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value};

use super::files::{ADDED_TOKENS, CONFIG, Files, GENERATION, SPECIAL_TOKENS};
use crate::config::ModelConfig;
use crate::error::{Error, Result};

/// Keys of special tokens with at most one token.
const ROLES: [&str; 7] = ["bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"];
/// Keys with lists of further special tokens.
const LISTS: [&str; 2] = ["additional_special_tokens", "extra_special_tokens"];

/// Ids of special tokens in `config.json`, used if no file of the tokenizer names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Begin of sequence.
    pub bos: Option<u32>,
    /// Every id that ends an utterance. The first is the tokenizer's EOS if its files name none.
    pub eos: Vec<u32>,
}

impl From<&ModelConfig> for SpecialIds {
    fn from(config: &ModelConfig) -> Self {
        Self { bos: config.bos_token_id, eos: config.eos_token_ids.clone() }
    }
}

/// `eos_token_id` of a `generation_config.json`: a number or a list. Invalid ids, such as -1, are skipped.
fn ids(value: Option<&Value>) -> Vec<u32> {
    let list = match value {
        Some(Value::Array(list)) => list.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    list.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

/// The special tokens named by a tokenizer's companion files, and their settings.
pub(super) struct Roles {
    /// `tokenizer_config.json`; null if absent.
    pub(super) config: Value,
    map: Value,
    added: Value,
    /// Ids that end generation.
    pub(super) ending: Vec<u32>,
}

impl Roles {
    pub(super) fn read(files: &Files) -> Result<Self> {
        let json = |name: &str| Ok::<_, Error>(files.json(name)?.unwrap_or(Value::Null));
        Ok(Self {
            config: json(CONFIG)?,
            map: json(SPECIAL_TOKENS)?,
            added: json(ADDED_TOKENS)?,
            ending: ids(json(GENERATION)?.get("eos_token_id")),
        })
    }

    /// The roles in a `tokenizer_config.json` only.
    pub(super) fn of_config(config: Value) -> Self {
        Self { config, map: Value::Null, added: Value::Null, ending: Vec::new() }
    }

    /// A key of `tokenizer_config.json`.
    pub(super) fn setting(&self, key: &str) -> Option<&Value> {
        self.config.get(key)
    }

    /// The tokenizer's class in transformers, without the suffix `Fast`.
    pub(super) fn class(&self) -> Option<&str> {
        let class = self.setting("tokenizer_class")?.as_str()?;
        Some(class.strip_suffix("Fast").unwrap_or(class))
    }

    /// The token with a role.
    pub(super) fn named(&self, role: &str) -> Option<&str> {
        [&self.config, &self.map].into_iter().find_map(|file| content(file.get(role)?))
    }

    /// Whether the tokenizer has no BOS, regardless of `config.json`: `tokenizer_config.json` is null for it, or omits it
    /// for a class without a default BOS.
    pub(super) fn has_no_bos(&self) -> bool {
        let classes = ["Qwen2Tokenizer", "PreTrainedTokenizer", "TokenizersBackend"];
        self.named("bos_token").is_none()
            && match self.setting("bos_token") {
                Some(value) => value.is_null(),
                None => self.named("eos_token").is_some() && self.class().is_some_and(|c| classes.contains(&c)),
            }
    }

    /// The names of all special tokens.
    pub(super) fn all_named(&self) -> HashSet<&str> {
        let lists = LISTS.into_iter().flat_map(|key| [self.config.get(key), self.map.get(key)]).flatten();
        let listed = lists.flat_map(|list| match list {
            Value::Array(tokens) => tokens.iter().collect::<Vec<_>>(),
            Value::Object(tokens) => tokens.values().collect(),
            _ => Vec::new(),
        });
        let added = self.added_tokens().filter(|(_, token)| is_true(token, "special")).map(|(_, token)| token);
        let named = ROLES.into_iter().filter_map(|role| self.named(role));
        named.chain(listed.chain(added).filter_map(content)).filter(|name| !name.is_empty()).collect()
    }

    /// Tokens added to the vocabulary, by id: those of `added_tokens_decoder`, then those of `added_tokens.json`.
    /// Each has `content` and optional flags.
    pub(super) fn added(&self) -> BTreeMap<u32, Map<String, Value>> {
        let mut tokens: BTreeMap<u32, Map<String, Value>> = BTreeMap::new();
        for (token, id) in self.added.as_object().into_iter().flatten() {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
            tokens.extend(id.map(|id| (id, Map::from_iter([("content".to_owned(), token.as_str().into())]))));
        }
        for (id, token) in self.added_tokens() {
            tokens.extend(id.parse().ok().zip(token.as_object().cloned()));
        }
        tokens
    }

    fn added_tokens(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.setting("added_tokens_decoder").and_then(Value::as_object).into_iter().flatten()
    }
}

/// The text of a token, which is a string or an object with flags.
fn content(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}

/// Whether an object's flag is set.
pub(super) fn is_true(token: &Value, flag: &str) -> bool {
    token.get(flag).and_then(Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn roles(config: Value, map: Value) -> Roles {
        Roles { config, map, added: json!({"<pad>": 7}), ending: Vec::new() }
    }

    #[test]
    fn ids_are_numbers_and_lists_of_numbers() {
        for (value, expected) in [
            (json!(2), vec![2]),
            (json!([5, 3]), vec![5, 3]),
            (json!([-1, 4_294_967_296_u64, 3, "4"]), vec![3]),
            (json!(null), vec![]),
            (json!({"a": 1}), vec![]),
        ] {
            assert_eq!(ids(Some(&value)), expected, "{value}");
        }
        assert!(ids(None).is_empty());
    }

    #[test]
    fn bos_is_absent_if_the_file_says_null_or_the_class_has_none() {
        let map = json!({});
        for (config, absent) in [
            (json!({"bos_token": null, "eos_token": "e"}), true),
            (json!({"eos_token": "e", "tokenizer_class": "Qwen2TokenizerFast"}), true),
            (json!({"eos_token": "e", "tokenizer_class": "LlamaTokenizer"}), false),
            (json!({"bos_token": {"content": "b"}}), false),
            (json!({}), false),
            (json!(null), false),
        ] {
            assert_eq!(roles(config.clone(), map.clone()).has_no_bos(), absent, "{config}");
        }
        assert!(!roles(json!({"bos_token": null}), json!({"bos_token": "b"})).has_no_bos());
    }

    #[test]
    fn special_tokens_are_named_in_roles_lists_and_added_tokens() {
        let config = json!({
            "bos_token": {"content": "b"}, "pad_token": null, "additional_special_tokens": ["x", {"content": "y"}],
            "added_tokens_decoder": {"8": {"content": "z", "special": true}, "9": {"content": "w", "special": false}},
        });
        let roles = roles(config, json!({"eos_token": "e", "bos_token": "other"}));
        let mut named: Vec<&str> = roles.all_named().into_iter().collect();
        named.sort_unstable();
        assert_eq!(named, ["b", "e", "x", "y", "z"]);
        assert_eq!(roles.added().into_keys().collect::<Vec<_>>(), [7, 8, 9]);
    }
}
