//! Conversations of requests.

mod messages;

use serde_json::{Map, Value};
use spag_chat::{ChatTemplate, encode_messages};
use spag_model::Tokenizer;

pub(crate) use messages::messages;

use crate::api::ApiError;

/// The tokens of a conversation, with everything that the template writes around the messages. BOS is there if the template
/// writes it.
///
/// # Errors
/// The template refuses the messages, or the tokenizer the text.
pub(crate) fn encode(
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
    messages: Vec<Value>,
    more: &Map<String, Value>,
) -> Result<Vec<u32>, ApiError> {
    encode_messages(template, tokenizer, messages, more).map_err(|error| ApiError::field("messages", error))
}
