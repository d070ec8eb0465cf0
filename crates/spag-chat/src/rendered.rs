//! Conversations as text: what a template renders of them.

use serde_json::{Map, Value, json};
use spag_io::{ChatMessage, PromptText};
use spag_model::Tokenizer;

use crate::error::{Error, Result};
use crate::special::{contain, free_mark, mark, mark_said, without_marks};
use crate::template::ChatTemplate;

/// A conversation for [`Tokenizer::encode_said`], with everything that the template writes around the messages. BOS is there if
/// the template writes it. `more` are further variables of the template. All texts of `messages` are text: a special token in one
/// of them is none.
///
/// # Errors
/// The template refuses the messages.
pub fn render_messages(
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
    mut messages: Vec<Value>,
    more: &Map<String, Value>,
) -> Result<PromptText> {
    let mark = mark(tokenizer, &mut messages)?;
    Ok(without_marks(template.render(&messages, more)?, mark))
}

/// As [`render_messages`], up to the end of the last message's content, which the answer goes on with, as `continue_final_message` of
/// transformers does it: blanks at its end stay if the template keeps them.
///
/// # Errors
/// As [`render_messages`]; or the template leaves the content out.
pub fn render_continued(
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
    mut messages: Vec<Value>,
    more: &Map<String, Value>,
) -> Result<PromptText> {
    let mark = mark(tokenizer, &mut messages)?;
    let end = free_mark(|mark| contain(&messages, mark))?;
    if let Some(Value::String(content)) = messages.last_mut().and_then(|message| message.get_mut("content")) {
        // A template that takes off blanks takes off the last one.
        content.extend([end, ' ']);
    }
    let mut text = template.render(&messages, more)?;
    let at = text.rfind(end).ok_or(Error::NotContinued)?;
    let is_trimmed = !text[at + end.len_utf8()..].starts_with(' ');
    text.truncate(at);
    if is_trimmed {
        text.truncate(text.trim_end().len());
    }
    Ok(without_marks(text.replace(end, ""), mark))
}

/// What a template renders of a conversation and the begin of an answer, with the special tokens that players said.
pub(crate) fn render(template: &ChatTemplate, tokenizer: &Tokenizer, messages: &[ChatMessage]) -> Result<PromptText> {
    let mut contents: Vec<PromptText> = messages.iter().map(|message| message.content.clone()).collect();
    let mark = mark_said(tokenizer, &mut contents)?;
    let object = |(message, content): (&ChatMessage, &PromptText)| json!({"role": message.role.name(), "content": content.text()});
    let messages: Vec<Value> = messages.iter().zip(&contents).map(object).collect();
    let text = template.render(&messages, &variables(Answer::Begun))?;
    Ok(without_marks(text, mark))
}

/// Whether the begin of an answer follows a conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Begun,
    Absent,
}

/// The variables of a template, as `apply_chat_template` sets them.
pub(crate) fn variables(answer: Answer) -> Map<String, Value> {
    let begun = ("add_generation_prompt".to_owned(), Value::Bool(answer == Answer::Begun));
    Map::from_iter([begun, ("tools".to_owned(), Value::Null), ("documents".to_owned(), Value::Null)])
}
