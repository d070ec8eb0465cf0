//! Converts a byte-level vocabulary with merges to a `tokenizer.json`.

use serde_json::{Map, Value, json};
use spag_io::quote;

use super::splits::Splits;
use super::vocabulary::{Kind, Vocabulary};

/// The pre-tokenizer splits named by the file.
pub(super) fn splits(vocabulary: &Vocabulary<'_>) -> Result<Splits, String> {
    match vocabulary.metadata.text("tokenizer.ggml.pre")? {
        Some(name) => Splits::named(name),
        None => {
            Err("it has no `tokenizer.ggml.pre`, which says how texts are split: it is from before llama.cpp wrote \
                     it; make it again from the model's folder"
                .into())
        }
    }
}

/// The contents of a `tokenizer.json`.
pub(super) fn definition(vocabulary: &Vocabulary<'_>, splits: &Splits) -> Result<Map<String, Value>, String> {
    let used = || {
        let all = vocabulary.tokens.iter().enumerate();
        all.filter(|(id, token)| !token.is_empty() && vocabulary.kind(*id) != Kind::Unused)
    };
    let vocab: Map<String, Value> = used().map(|(id, token)| (token.clone(), id.into())).collect();
    let added: Vec<Value> = used()
        .filter_map(|(id, token)| {
            let special = match vocabulary.kind(id) {
                Kind::Control | Kind::Unknown => true,
                Kind::UserDefined => vocabulary.has_role(id),
                _ if vocabulary.has_role(id) => true,
                _ => return None,
            };
            Some(json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": special}))
        })
        .collect();
    let normalizer = if splits.nfc { json!({"type": "NFC"}) } else { Value::Null };
    let bpe = json!({
        "type": "BPE",
        "dropout": null,
        "unk_token": null,
        "continuing_subword_prefix": null,
        "end_of_word_suffix": null,
        "fuse_unk": false,
        "byte_fallback": false,
        "ignore_merges": splits.ignore_merges,
        "vocab": vocab,
        "merges": merges(vocabulary)?,
    });
    let parts = [
        ("version", json!("1.0")),
        ("truncation", Value::Null),
        ("padding", Value::Null),
        ("added_tokens", Value::Array(added)),
        ("normalizer", normalizer),
        ("pre_tokenizer", splits.pre_tokenizer()),
        ("post_processor", Value::Null),
        ("decoder", json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})),
        ("model", bpe),
    ];
    Ok(parts.into_iter().map(|(key, part)| (key.to_owned(), part)).collect())
}

/// Pairs of parts in merge order. A part may begin with a blank, but not contain another.
fn merges(vocabulary: &Vocabulary<'_>) -> Result<Vec<Value>, String> {
    let key = "tokenizer.ggml.merges";
    let merges = vocabulary.metadata.texts(key)?.ok_or_else(|| format!("it has no `{key}`"))?;
    let pair = |merge: &String| {
        let at = merge.char_indices().skip(1).find(|(_, c)| *c == ' ').map(|(at, _)| at);
        match at.and_then(|at| Some((merge.get(..at)?, merge.get(at + 1..)?))) {
            Some((first, second)) => Ok(json!([first, second])),
            None => Err(format!("`{key}`: \"{}\" is not two parts", quote(merge))),
        }
    };
    merges.iter().map(pair).collect()
}
