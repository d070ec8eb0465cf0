//! The field `prompt` of a completion: a text, a list of texts, a token list, or a list of token lists.

use serde_json::Value;
use spag_model::tokenizer::SpecialTokens;

use super::error::ApiError;
use super::fields::shown;
use super::length::TextLength;
use crate::limits::MAX_SEQUENCES;
use crate::model::ServedModel;

/// A prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PromptInput {
    /// The text, unless the prompt is a token list.
    pub(crate) text: Option<String>,
    /// The tokens (non-empty), with BOS if the prompt is a text and the tokenizer adds one.
    pub(crate) tokens: Vec<u32>,
}

/// Whether BOS is prepended to a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bos {
    Added,
    Left,
}

/// The prompts of a request. Texts are encoded as in transformers; tokens are used unchanged.
pub(crate) fn prompts(value: Option<Value>, bos: Bos, model: &ServedModel) -> Result<Vec<PromptInput>, ApiError> {
    let field = |problem: &str| ApiError::field("prompt", problem);
    let expected = "expected a string, a list of strings, a list of token ids, or a list of lists of token ids";
    let list = match value {
        None => return Err(field("it is missing")),
        Some(Value::String(text)) => return Ok(vec![of_text("prompt", text, bos, model)?]),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(field(&format!("{expected}, not {}", shown(&other)))),
    };
    match list.first() {
        None => Err(field("the list is empty")),
        Some(Value::Number(_)) => Ok(vec![of_tokens("prompt", &list, model)?]),
        Some(_) if list.len() > MAX_SEQUENCES => {
            Err(field(&format!("it has {} prompts, more than {MAX_SEQUENCES}; send several requests", list.len())))
        }
        Some(_) => {
            let one = |(at, value): (usize, Value)| match value {
                Value::String(text) => of_text(&format!("prompt[{at}]"), text, bos, model),
                Value::Array(ids) => of_tokens(&format!("prompt[{at}]"), &ids, model),
                other => {
                    Err(ApiError::field(format!("prompt[{at}]"), format_args!("{expected}, not {}", shown(&other))))
                }
            };
            list.into_iter().enumerate().map(one).collect()
        }
    }
}

fn of_text(at: &str, text: String, bos: Bos, model: &ServedModel) -> Result<PromptInput, ApiError> {
    TextLength::Fits.check(at, text.len(), model)?;
    let tokens = encode(&text, bos, model).map_err(|error| ApiError::field(at, error))?;
    if tokens.is_empty() {
        return Err(ApiError::field(at, "the prompt has no tokens; give at least one"));
    }
    Ok(PromptInput { text: Some(text), tokens })
}

fn of_tokens(at: &str, ids: &[Value], model: &ServedModel) -> Result<PromptInput, ApiError> {
    if ids.is_empty() {
        return Err(ApiError::field(at, "the prompt has no tokens; give at least one"));
    }
    TextLength::Fits.check_tokens(at, ids.len(), model)?;
    Ok(PromptInput { text: None, tokens: token_ids(at, ids, model)? })
}

/// The token ids of the list at `at`.
pub(super) fn token_ids(at: &str, ids: &[Value], model: &ServedModel) -> Result<Vec<u32>, ApiError> {
    let token = |(place, id): (usize, &Value)| {
        let problem = || format!("expected token ids from 0 to {}, not {}", model.vocabulary - 1, shown(id));
        model.token(id).ok_or_else(|| ApiError::field(format!("{at}[{place}]"), problem()))
    };
    ids.iter().enumerate().map(token).collect()
}

/// The tokens of a text. Special tokens in it are matched.
pub(super) fn encode(text: &str, bos: Bos, model: &ServedModel) -> spag_model::Result<Vec<u32>> {
    match bos {
        Bos::Added => model.tokenizer().encode_prompt(text, SpecialTokens::Matched),
        Bos::Left => model.tokenizer().encode(text),
    }
}
