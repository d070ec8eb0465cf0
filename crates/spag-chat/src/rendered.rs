//! Renders conversations to text with a template.

use serde_json::{Map, Value, json};
use spag_io::{ChatMessage, PromptText};
use spag_model::Tokenizer;

use crate::error::{Error, Result};
use crate::special::{contain, free_mark, mark, mark_said, without_marks};
use crate::template::ChatTemplate;

/// Renders a conversation for [`Tokenizer::encode_said`], including everything that the template writes around the messages, and
/// BOS if it writes one. `more` are further variables of the template. The content of `messages` is plain text: special tokens in
/// it are not matched.
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

/// [`render_messages`] up to the end of the last message's content, for the answer to continue, as `continue_final_message` of
/// transformers: trailing blanks stay if the template keeps them.
///
/// # Errors
/// As [`render_messages`]; or the template drops the content.
pub fn render_continued(
    template: &ChatTemplate,
    tokenizer: &Tokenizer,
    mut messages: Vec<Value>,
    more: &Map<String, Value>,
) -> Result<PromptText> {
    let mark = mark(tokenizer, &mut messages)?;
    let end = free_mark(|mark| contain(&messages, mark))?;
    if let Some(Value::String(content)) = messages.last_mut().and_then(|message| message.get_mut("content")) {
        // A template that strips blanks strips the last one.
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

/// Renders a conversation and the start of an answer, keeping special tokens said by players as text.
pub(crate) fn render(template: &ChatTemplate, tokenizer: &Tokenizer, messages: &[ChatMessage]) -> Result<PromptText> {
    let mut contents: Vec<PromptText> = messages.iter().map(|message| message.content.clone()).collect();
    let mark = mark_said(tokenizer, &mut contents)?;
    let object = |(message, content): (&ChatMessage, &PromptText)| json!({"role": message.role.name(), "content": content.text()});
    let messages: Vec<Value> = messages.iter().zip(&contents).map(object).collect();
    let text = template.render(&messages, &variables(Answer::Begun))?;
    Ok(without_marks(text, mark))
}

/// How a conversation is followed by an answer.
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
