//! Converts a SentencePiece model to a pipeline, as transformers converts LLaMA tokenizers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::decoder::PieceDecoder;
use super::merges::merges;
use super::{BLANK, Kind, PieceModel};
use crate::tokenizer::roles::{Roles, is_true};

/// Classes that transformers converts. Tokenizers with a folder's own Python code run SentencePiece itself.
const CONVERTED: [&str; 4] = ["LlamaTokenizer", "CodeLlamaTokenizer", "PreTrainedTokenizer", "TokenizersBackend"];

/// The contents of a `tokenizer.json`, and SentencePiece's decoder if it is used instead of the pipeline's.
///
/// # Errors
/// A model with unsupported settings or too many merges.
pub(crate) fn pipeline(
    model: &PieceModel,
    roles: &Roles,
) -> Result<(Map<String, Value>, Option<PieceDecoder>), String> {
    let is_converted = roles.class().is_none_or(|class| CONVERTED.contains(&class));
    let normalizer = &model.normalizer;
    if !is_converted && (normalizer.remove_extra_whitespaces || normalizer.denormalizes) {
        return Err(
            "this SentencePiece model removes repeated blanks, or replaces characters in decoding, which is not supported"
                .into(),
        );
    }
    let flag = |key: &str| roles.setting(key).and_then(Value::as_bool);
    // SentencePiece itself has neither key.
    let legacy = !is_converted || flag("legacy").unwrap_or(true);
    let prefix = flag("add_prefix_space").filter(|_| is_converted).unwrap_or(normalizer.dummy_prefix);

    let mut normalizers = Vec::new();
    if !normalizer.charsmap.is_empty() {
        let charsmap = STANDARD.encode(&normalizer.charsmap);
        normalizers.push(json!({"type": "Precompiled", "precompiled_charsmap": charsmap}));
    }
    if legacy && prefix {
        normalizers.push(json!({"type": "Prepend", "prepend": BLANK}));
    }
    if legacy {
        normalizers.push(json!({"type": "Replace", "pattern": {"String": " "}, "content": BLANK}));
    }
    let scheme = if prefix { "first" } else { "never" };
    let metaspace = json!({"type": "Metaspace", "replacement": BLANK, "prepend_scheme": scheme, "split": false});
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": BLANK}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let added = added_tokens(model, roles);
    let decoder = (!is_converted).then(|| PieceDecoder::new(model, &added));
    let vocab: Map<String, Value> =
        model.pieces.iter().enumerate().map(|(id, piece)| (piece.text.clone(), id.into())).collect();
    let bpe = json!({
        "type": "BPE",
        "unk_token": model.text(model.unknown),
        "fuse_unk": true,
        "byte_fallback": model.byte_fallback,
        "vocab": vocab,
        "merges": merges(model)?,
    });
    let parts = [
        ("version", json!("1.0")),
        ("added_tokens", Value::Array(added)),
        ("normalizer", json!({"type": "Sequence", "normalizers": normalizers})),
        ("pre_tokenizer", if legacy { Value::Null } else { metaspace }),
        ("decoder", json!({"type": "Sequence", "decoders": decoders})),
        ("model", bpe),
    ];
    Ok((parts.into_iter().map(|(key, part)| (key.to_owned(), part)).collect(), decoder))
}

/// Tokens matched whole: control and user-defined pieces, pieces with a special token's role, and tokens added later.
/// All but the user-defined ones are special.
fn added_tokens(model: &PieceModel, roles: &Roles) -> Vec<Value> {
    let (named, mut later) = (roles.all_named(), roles.added());
    let token = |id: usize, content: &str, special: bool, flags: &Map<String, Value>| {
        let flags = Value::Object(flags.clone());
        json!({
            "id": id,
            "content": content,
            "single_word": is_true(&flags, "single_word"),
            "lstrip": is_true(&flags, "lstrip"),
            "rstrip": is_true(&flags, "rstrip"),
            "normalized": false,
            "special": special || is_true(&flags, "special"),
        })
    };
    let mut tokens = Vec::new();
    for (id, piece) in model.pieces.iter().enumerate() {
        let flags = u32::try_from(id).ok().and_then(|id| later.remove(&id));
        let special = piece.kind == Kind::Control || named.contains(piece.text.as_str());
        if special || piece.kind == Kind::UserDefined || flags.is_some() {
            tokens.push(token(id, &piece.text, special, &flags.unwrap_or_default()));
        }
    }
    for (id, flags) in later {
        // The library ignores tokens without text, which shifts later ids; these are then refused.
        let content = flags.get("content").and_then(Value::as_str).unwrap_or_default();
        tokens.push(token(id as usize, content, named.contains(content), &flags));
    }
    tokens
}
