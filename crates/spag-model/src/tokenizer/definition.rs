//! Preprocesses `tokenizer.json` for the tokenizers library: clears what must not be applied, refuses what is
//! unsupported, and limits memory and time.

use std::collections::HashSet;

use serde_json::{Map, Value};
use spag_io::quote;

use super::bos::FirstToken;
use super::expansion::{self, Kind};
use super::vocabulary::{self, MAX_TOKEN};

/// Maximum values of the JSON file. The largest published vocabularies have some 3 million.
const MAX_VALUES: usize = 16 << 20;
/// Maximum factor by which normalizers and pre-tokenizers together may lengthen a text.
const MAX_EXPANSION: f64 = 4096.0;
/// Maximum factor by which decoders may lengthen a text.
const MAX_DECODED: f64 = 64.0;

/// A tokenizer definition that is safe to load.
pub(super) struct Definition {
    /// The JSON for the library.
    pub(super) json: Vec<u8>,
    /// Maximum factor by which encoding can lengthen a text before it is split into tokens.
    pub(super) expansion: f64,
    /// The largest id of the vocabulary.
    pub(super) last_id: u32,
    /// The unknown token.
    pub(super) unknown: Option<String>,
    /// The token that the post-processor prepends.
    pub(super) first: FirstToken,
    /// Added tokens with their ids.
    added: Vec<(String, u64)>,
}

impl Definition {
    /// Parses and validates the contents of a `tokenizer.json`. `special` are the names of special tokens.
    pub(super) fn read(bytes: &[u8], special: &HashSet<&str>) -> Result<Self, String> {
        // Every value follows a comma or an opening bracket.
        if bytes.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count() > MAX_VALUES {
            return Err(format!("not a valid tokenizer.json: it has more than {MAX_VALUES} values"));
        }
        let invalid = |e: serde_json::Error| format!("not a valid tokenizer.json: {e}");
        Self::check(serde_json::from_slice(bytes).map_err(invalid)?, special)
    }

    /// Validates a definition.
    pub(super) fn check(mut root: Map<String, Value>, special: &HashSet<&str>) -> Result<Self, String> {
        let first = FirstToken::of(root.get("post_processor"));
        // A prompt is encoded whole, alone, and without special tokens. Templates could only drop or repeat it.
        for key in ["truncation", "padding", "post_processor"] {
            root.insert(key.to_owned(), Value::Null);
        }
        let factor = |key: &str, kind: Kind| match root.get(key) {
            None | Some(Value::Null) => Ok(1.0),
            Some(part) => expansion::factor(part, kind).map_err(|reason| format!("`{key}`: {reason}")),
        };
        let expansion = factor("normalizer", Kind::Normalizer)? * factor("pre_tokenizer", Kind::PreTokenizer)?;
        let decoded = factor("decoder", Kind::Decoder)?;
        if expansion > MAX_EXPANSION || decoded > MAX_DECODED {
            return Err("its normalizers, pre-tokenizers or decoders can lengthen a text without bound".into());
        }
        let Some(Value::Object(model)) = root.get("model") else {
            return Err("not a valid tokenizer.json: it has no `model`".into());
        };
        let last_id = vocabulary::check(model).map_err(|reason| format!("`model`: {reason}"))?;
        let unknown = vocabulary::unknown(model).map(str::to_owned);
        let added = added_tokens(root.get_mut("added_tokens"), special)?;
        let json = serde_json::to_vec(&root).map_err(|e| format!("not a valid tokenizer.json: {e}"))?;
        Ok(Self { json, expansion, last_id, unknown, first, added })
    }

    /// Checks that the library, which numbers added tokens itself, assigned the ids of the file.
    pub(super) fn check_added_tokens(&self, inner: &tokenizers::Tokenizer) -> Result<(), String> {
        for (token, id) in &self.added {
            match inner.token_to_id(token) {
                Some(found) if u64::from(found) != *id => {
                    let token = quote(token);
                    return Err(format!(
                        "the added token \"{token}\" has id {id}, but its place in the vocabulary gives it {found}; \
                         correct the id, or save the tokenizer again with transformers"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Validates the added tokens, and marks those with a special token's role as special, as transformers does.
fn added_tokens(list: Option<&mut Value>, special: &HashSet<&str>) -> Result<Vec<(String, u64)>, String> {
    let mut tokens = Vec::new();
    for token in list.and_then(Value::as_array_mut).into_iter().flatten() {
        let (Some(content), Some(id)) =
            (token.get("content").and_then(Value::as_str), token.get("id").and_then(Value::as_u64))
        else {
            return Err(format!("`added_tokens`: {} has no content or no id", quote(&token.to_string())));
        };
        if content.len() > MAX_TOKEN {
            return Err(format!(
                "`added_tokens`: \"{}\" has {} bytes, more than {MAX_TOKEN}",
                quote(content),
                content.len()
            ));
        }
        let (content, is_special) = (content.to_owned(), special.contains(content));
        if let Some(token) = token.as_object_mut().filter(|_| is_special) {
            token.insert("special".to_owned(), true.into());
        }
        tokens.push((content, id));
    }
    Ok(tokens)
}
