//! Validates the `model` of a `tokenizer.json`: its vocabulary and the settings that affect splitting.

use std::collections::HashSet;

use serde_json::{Map, Value};
use spag_io::quote;

/// Maximum bytes of a token. The library's trie is as deep as its longest token, and recursive.
pub(super) const MAX_TOKEN: usize = 2048;

/// Maximum bytes of all tokens of a Unigram vocabulary. The library's trie takes some hundred bytes per byte.
const MAX_TRIE: usize = 16 << 20;
/// Maximum `max_input_chars_per_word` of WordPiece: the time of a word grows with its cube.
const MAX_WORD: u64 = 1000;

/// Validates a model and returns the largest id of its vocabulary.
pub(super) fn check(model: &Map<String, Value>) -> Result<u32, String> {
    match model.get("dropout").filter(|dropout| !dropout.is_null()) {
        Some(dropout) if dropout.as_f64() != Some(0.0) => {
            return Err(format!(
                "`dropout` is {}: the tokens of a text would be random, and a run could not be repeated or resumed; \
                 set it to null",
                quote(&dropout.to_string())
            ));
        }
        _ => {}
    }
    if let Some(longest) = model.get("max_input_chars_per_word").and_then(Value::as_u64).filter(|n| *n > MAX_WORD) {
        return Err(format!("`max_input_chars_per_word` is {longest}; at most {MAX_WORD} is supported"));
    }
    merges(model)?;
    match model.get("vocab") {
        Some(Value::Object(ids)) => with_ids(ids),
        Some(Value::Array(tokens)) => with_scores(tokens),
        _ => Err("there is no `vocab`".into()),
    }
}

/// The unknown token.
pub(super) fn unknown(model: &Map<String, Value>) -> Option<&str> {
    let by_id = || {
        let id = usize::try_from(model.get("unk_id")?.as_u64()?).ok()?;
        model.get("vocab")?.get(id)?.get(0)
    };
    model.get("unk_token").or_else(by_id)?.as_str()
}

/// Validates a BPE, WordPiece or WordLevel vocabulary: ids by token.
fn with_ids(ids: &Map<String, Value>) -> Result<u32, String> {
    let (mut seen, mut last) = (HashSet::with_capacity(ids.len()), 0);
    for (token, id) in ids {
        check_length(token)?;
        let Some(id) = id.as_u64().and_then(|id| u32::try_from(id).ok()) else {
            return Err(format!("`vocab`: the id of \"{}\" is {}", quote(token), quote(&id.to_string())));
        };
        // Decoding a duplicate id would be nondeterministic.
        if !seen.insert(id) {
            return Err(format!("`vocab`: \"{}\" and another token have the same id {id}", quote(token)));
        }
        last = last.max(id);
    }
    Ok(last)
}

/// Validates a Unigram vocabulary: tokens with scores, in id order.
fn with_scores(tokens: &[Value]) -> Result<u32, String> {
    let (mut seen, mut bytes) = (HashSet::with_capacity(tokens.len()), 0);
    for entry in tokens {
        let Some(token) = entry.get(0).and_then(Value::as_str) else {
            return Err(format!("`vocab`: {} is not a token with its score", quote(&entry.to_string())));
        };
        check_length(token)?;
        if !seen.insert(token) {
            return Err(format!("`vocab`: \"{}\" is there twice", quote(token)));
        }
        bytes += token.len();
    }
    if bytes > MAX_TRIE {
        return Err(format!("`vocab`: its tokens have {bytes} bytes together; at most {MAX_TRIE} are supported"));
    }
    Ok(u32::try_from(tokens.len().saturating_sub(1)).unwrap_or(u32::MAX))
}

fn check_length(token: &str) -> Result<(), String> {
    match token.len() {
        0..=MAX_TOKEN => Ok(()),
        bytes => Err(format!("`vocab`: \"{}\" has {bytes} bytes; at most {MAX_TOKEN} are supported", quote(token))),
    }
}

/// Checks `continuing_subword_prefix`, which the library strips from the second part of each merge without
/// checking.
fn merges(model: &Map<String, Value>) -> Result<(), String> {
    let Some(prefix) = model.get("continuing_subword_prefix").and_then(Value::as_str).filter(|p| !p.is_empty()) else {
        return Ok(());
    };
    for (index, merge) in model.get("merges").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let second = merge.get(1).or(Some(merge)).and_then(Value::as_str).unwrap_or_default();
        let second = second.rsplit(' ').next().unwrap_or_default();
        if !second.starts_with(prefix) {
            return Err(format!(
                "merge {} does not continue with `continuing_subword_prefix` \"{}\"",
                index + 1,
                quote(prefix)
            ));
        }
    }
    Ok(())
}
