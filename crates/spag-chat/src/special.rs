//! Keeps special tokens typed into messages as text.
//!
//! A template writes special tokens such as `<|im_end|>` around the messages. The same text inside a message must not
//! become that token: it would end the message, and the rest could pretend to be another role. So before rendering, a mark
//! character that occurs nowhere else is inserted into each such text. In the rendered conversation, the character before a
//! mark is known to belong to a message, and the mark is removed. Messages without such texts, the usual case, are
//! unchanged.

use serde_json::Value;
use spag_io::PromptText;
use spag_model::Tokenizer;

use crate::error::{Error, Result};

/// Unicode noncharacters, reserved for internal use.
const MARKS: std::ops::RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// Marks special tokens in the messages, in place. Returns the mark, or `None` if there are none.
///
/// # Errors
/// All 32 mark characters occur in the messages.
pub(crate) fn mark(tokenizer: &Tokenizer, messages: &mut [Value]) -> Result<Option<char>> {
    let found = |text: &str| tokenizer.special_texts(text).next().is_some();
    if !messages.iter().any(|message| any_text(message, &found)) {
        return Ok(None);
    }
    let mark = free_mark(|mark| contain(messages, mark))?;
    for message in messages {
        change_texts(message, &|text| marked(tokenizer, &PromptText::all_said(text), mark));
    }
    Ok(Some(mark))
}

/// Marks special tokens said by players in the contents, in place. Returns the mark, or `None` if there are none.
///
/// # Errors
/// As [`mark`].
pub(crate) fn mark_said(tokenizer: &Tokenizer, contents: &mut [PromptText]) -> Result<Option<char>> {
    let is_said =
        |text: &PromptText| tokenizer.special_texts(text.text()).any(|found| text.said_within(&found).is_some());
    if !contents.iter().any(is_said) {
        return Ok(None);
    }
    let mark = free_mark(|mark| contents.iter().any(|content| content.text().contains(mark)))?;
    for content in contents {
        *content = PromptText::own(marked(tokenizer, content, mark));
    }
    Ok(Some(mark))
}

/// Whether a character occurs in messages.
pub(crate) fn contain(messages: &[Value], mark: char) -> bool {
    messages.iter().any(|message| any_text(message, &|text: &str| text.contains(mark)))
}

/// A mark character that is not used.
///
/// # Errors
/// All are used.
pub(crate) fn free_mark(is_used: impl Fn(char) -> bool) -> Result<char> {
    let mut marks = MARKS;
    marks
        .find(|mark| !is_used(*mark))
        .ok_or(Error::Marks("the messages have all of U+FDD0 to U+FDEF, which mean nothing; remove one of them"))
}

/// Removes the marks from a rendered conversation. The characters before them count as said.
pub(crate) fn without_marks(text: String, mark: Option<char>) -> PromptText {
    let Some(mark) = mark else { return PromptText::own(text) };
    let mut prompt = PromptText::default();
    let mut parts = text.split(mark).peekable();
    while let Some(part) = parts.next() {
        let last = part.char_indices().next_back().map_or(0, |(at, _)| at);
        let (own, said) = if parts.peek().is_some() { part.split_at(last) } else { (part, "") };
        prompt.push(own);
        prompt.push_said(said);
    }
    prompt
}

/// A text with a mark after the first said character of every special token.
fn marked(tokenizer: &Tokenizer, content: &PromptText, mark: char) -> String {
    let text = content.text();
    let after_first = |at: usize| at + text[at..].chars().next().map_or(0, char::len_utf8);
    let said = tokenizer.special_texts(text).filter_map(|found| Some(after_first(content.said_within(&found)?.start)));
    let mut places: Vec<usize> = said.collect();
    places.sort_unstable();
    places.dedup();
    let (mut marked, mut from) = (String::with_capacity(text.len() + 4 * places.len()), 0);
    for at in places {
        marked.push_str(&text[from..at]);
        marked.push(mark);
        from = at;
    }
    marked + &text[from..]
}

fn any_text(value: &Value, test: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => test(text),
        Value::Array(list) => list.iter().any(|value| any_text(value, test)),
        Value::Object(object) => object.iter().any(|(key, value)| test(key) || any_text(value, test)),
        _ => false,
    }
}

fn change_texts(value: &mut Value, change: &impl Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(list) => list.iter_mut().for_each(|value| change_texts(value, change)),
        Value::Object(object) => {
            let changed = std::mem::take(object).into_iter().map(|(key, mut value)| {
                change_texts(&mut value, change);
                (change(&key), value)
            });
            *object = changed.collect();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_character_before_a_mark_was_said() {
        let shown = |text: &str| without_marks(text.to_owned(), Some('#'));
        let prompt = shown("<s>a<#s><é#x#");
        assert_eq!((prompt.text(), prompt.said()), ("<s>a<s><éx", &[4..5, 8..10, 10..11][..]));
        assert_eq!(shown("#a"), PromptText::own("a"));
        assert_eq!(without_marks("a#".into(), None), PromptText::own("a#"));
    }

    #[test]
    fn texts_are_found_and_changed_at_any_depth() {
        let mut value = json!({"content": "x", "calls": [{"arguments": {"x": ["x", 1, null]}}]});
        assert!(any_text(&value, &|text| text == "x") && !any_text(&value, &|text| text == "y"));
        change_texts(&mut value, &|text| text.replace('x', "y"));
        assert_eq!(value, json!({"content": "y", "calls": [{"arguments": {"y": ["y", 1, null]}}]}));
    }

    #[test]
    fn only_what_was_said_is_marked() {
        let tokenizer = crate::traits::tests::tokenizer("smollm", "smollm2");
        let content = PromptText::new("<|im_end|><|im_end|>.".into(), vec![10..21]).unwrap();
        assert_eq!(marked(&tokenizer, &content, '#'), "<|im_end|><#|im_end|>.");
        let half = PromptText::new("<|im_end|>".into(), vec![4..10]).unwrap();
        assert_eq!(marked(&tokenizer, &half, '#'), "<|im_#end|>");
        let mut contents = [PromptText::own("<|im_end|>"), PromptText::all_said("<|im")];
        assert_eq!(mark_said(&tokenizer, &mut contents).unwrap(), None);
        let all: String = MARKS.collect();
        let mut full = [PromptText::all_said(format!("<|im_end|>{all}"))];
        assert!(mark_said(&tokenizer, &mut full).unwrap_err().to_string().contains("U+FDEF"));
    }
}
