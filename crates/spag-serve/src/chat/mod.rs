//! Conversations as prompts.

mod json;
mod messages;
mod special;
mod template;

use serde_json::{Map, Value};
use spag_model::Tokenizer;

pub(crate) use messages::messages;
pub(crate) use template::{ChatTemplate, object, special_tokens};

use crate::api::ApiError;

/// The tokens of a conversation, with everything that the template writes around the messages. BOS is there if the template
/// writes it.
///
/// # Errors
/// The template refuses the messages, or the tokenizer the text.
pub(crate) fn encode(
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
    mut messages: Vec<Value>,
    more: &Map<String, Value>,
) -> Result<Vec<u32>, ApiError> {
    let mark = special::mark(tokenizer, &mut messages).map_err(|why| ApiError::field("messages", why))?;
    let text = template.render(&messages, more).map_err(|error| ApiError::field("messages", error))?;
    special::encode(tokenizer, &text, mark).map_err(|error| ApiError::field("messages", error))
}
