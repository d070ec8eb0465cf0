//! `/tokenize`, `/detokenize` and `/tokenizer_info`, for clients without a tokenizer.

use serde_json::{Map, Value, json};

use super::chat::conversation;
use super::error::ApiError;
use super::fields::Fields;
use super::length::TextLength;
use super::prompts::{Bos, encode, token_ids};
use crate::model::ServedModel;

/// The tokens of a text, or of a conversation.
pub(crate) fn tokenize(mut fields: Fields, model: &ServedModel) -> Result<Value, ApiError> {
    let bos = fields.truth("add_special_tokens")?;
    let with_texts = fields.truth("return_token_strs")?.unwrap_or(false);
    let tokens = match fields.text("prompt")? {
        Some(text) => {
            let bos = if bos == Some(false) { Bos::Left } else { Bos::Added };
            TextLength::Any.check("prompt", text.len(), model)?;
            encode(&text, bos, model).map_err(|error| ApiError::field("prompt", error))?
        }
        None if !fields.has("messages") => return Err(ApiError::field("prompt", "it is missing")),
        None => conversation(&mut fields, TextLength::Any, model)?.prompt,
    };
    fields.finish(&[])?;
    let texts: Option<Vec<String>> = with_texts.then(|| tokens.iter().map(|token| model.texts.text(*token)).collect());
    Ok(json!({"count": tokens.len(), "max_model_len": model.max_length, "tokens": tokens, "token_strs": texts}))
}

/// The text of tokens, including special tokens.
pub(crate) fn detokenize(mut fields: Fields, model: &ServedModel) -> Result<Value, ApiError> {
    let Some(Value::Array(list)) = fields.take("tokens") else {
        return Err(ApiError::field("tokens", "expected a list of token ids"));
    };
    fields.finish(&[])?;
    TextLength::Any.check_tokens("tokens", list.len(), model)?;
    let tokens = token_ids("tokens", &list, model)?;
    let text = model.tokenizer().decode_with_special(&tokens).map_err(|error| ApiError::field("tokens", error))?;
    Ok(json!({"prompt": text}))
}

/// The special tokens, the chat template, and the rest of `tokenizer_config.json`.
pub(crate) fn tokenizer_info(model: &ServedModel) -> Value {
    let tokenizer = model.tokenizer();
    let config = spag_chat::object(tokenizer.file("tokenizer_config.json"));
    let map = spag_chat::object(tokenizer.file("special_tokens_map.json"));
    let special = spag_chat::special_tokens(tokenizer, &config, &map);
    let mut info: Map<String, Value> = config;
    for role in ["bos_token", "eos_token", "pad_token", "unk_token"] {
        info.insert(role.into(), special.get(role).cloned().unwrap_or_default());
    }
    info.extend(special);
    // Ignores a BOS that the tokenizer's own files disable.
    if tokenizer.bos_token().is_none() {
        info.insert("bos_token".into(), Value::Null);
    }
    let template = model.template().ok().map(|template| template.source().to_owned());
    info.insert("chat_template".into(), template.into());
    info.insert("max_model_len".into(), model.max_length.into());
    info.insert("vocab_size".into(), tokenizer.vocab_size().into());
    info.into()
}
