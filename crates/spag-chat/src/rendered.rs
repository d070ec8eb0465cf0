//! Renders conversations to text with a template.

use serde_json::{Map, Value, json};
use spag_io::{ChatMessage, PromptEnd, PromptText};
use spag_model::Tokenizer;

use crate::error::{Error, Result};
use crate::reasoning::ReasoningForm;
use crate::special::{contain, free_mark, mark, mark_said, without_marks};
use crate::template::ChatTemplate;
use crate::template_kwargs::TemplateKwargs;

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
pub(crate) fn render(
    (template, kwargs): (&ChatTemplate, &TemplateKwargs),
    tokenizer: &Tokenizer,
    messages: &[ChatMessage],
) -> Result<PromptText> {
    let mut contents: Vec<PromptText> = messages.iter().map(|message| message.content.clone()).collect();
    let mark = mark_said(tokenizer, &mut contents)?;
    let object = |(message, content): (&ChatMessage, &PromptText)| json!({"role": message.role.name(), "content": content.text()});
    let objects: Vec<Value> = messages.iter().zip(&contents).map(object).collect();
    Ok(without_marks(template.render(&objects, &variables(Answer::Begun, kwargs))?, mark))
}

/// [`render`] with the reasoning of messages before their contents, as a model wrote it: templates would drop it.
pub(crate) fn render_thought(
    (template, kwargs, form): (&ChatTemplate, &TemplateKwargs, &ReasoningForm),
    tokenizer: &Tokenizer,
    messages: &[ChatMessage],
) -> Result<PromptText> {
    let thought: Vec<&str> = messages.iter().filter_map(|message| message.reasoning.as_deref()).collect();
    if thought.is_empty() {
        return render((template, kwargs), tokenizer, messages);
    }
    let place = free_mark(|mark| messages.iter().any(|message| message.content.text().contains(mark)))?;
    let with_place = |message: &ChatMessage| {
        let mut content = PromptText::default();
        if message.reasoning.is_some() {
            content.push(place.encode_utf8(&mut [0; 4]));
        }
        content.append(&message.content);
        ChatMessage::new(message.role, content)
    };
    let marked: Vec<ChatMessage> = messages.iter().map(with_place).collect();
    let rendered = render((template, kwargs), tokenizer, &marked)?;
    let (mut text, mut at) = (PromptText::default(), 0);
    for ((found, _), thought) in rendered.text().match_indices(place).zip(thought) {
        text.append(&rendered.part(at..found));
        text.append(&form.completion(PromptEnd::Plain, Some(thought), ""));
        at = found + place.len_utf8();
    }
    text.append(&rendered.part(at..rendered.text().len()));
    Ok(text)
}

/// How a conversation is followed by an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Begun,
    Absent,
}

/// The variables of a template, as `apply_chat_template` sets them.
pub(crate) fn variables(answer: Answer, kwargs: &TemplateKwargs) -> Map<String, Value> {
    let begun = ("add_generation_prompt".to_owned(), Value::Bool(answer == Answer::Begun));
    let own = [begun, ("tools".to_owned(), Value::Null), ("documents".to_owned(), Value::Null)];
    own.into_iter().chain(kwargs.variables().clone()).collect()
}
