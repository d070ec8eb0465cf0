//! Special tokens that somebody typed into a message stay text.
//!
//! A template writes special tokens such as `<|im_end|>` around the messages. The same text within a message must not
//! become that token: it would end the message, and what follows could pretend to be another role. So before a template
//! is rendered, a mark that occurs nowhere else is put into each such text. The rendered conversation is encoded in the
//! parts between the marks: special tokens are matched in each part, and none spans a mark. Without such texts, which
//! is the usual case, the conversation is encoded as a whole, as `transformers` does it.

use serde_json::Value;
use spag_model::Tokenizer;

/// A character that Unicode reserves for such use.
const MARKS: std::ops::RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';

/// Marks special tokens in the texts of messages, in place. Returns the mark, or `None` if no such text occurs.
///
/// # Errors
/// All 32 characters that serve as marks occur in the messages.
pub(super) fn mark(tokenizer: &Tokenizer, messages: &mut [Value]) -> Result<Option<char>, &'static str> {
    // A token of one character, such as a full stop for padding, cannot be told from that character.
    let special: Vec<&str> =
        tokenizer.special_tokens().map(|(_, text)| text).filter(|t| t.chars().nth(1).is_some()).collect();
    let found = |text: &str| special.iter().any(|token| text.contains(token));
    if !messages.iter().any(|message| any_text(message, &found)) {
        return Ok(None);
    }
    let is_free = |mark: &char| !messages.iter().any(|message| any_text(message, &|text: &str| text.contains(*mark)));
    let mark =
        MARKS.into_iter().find(is_free).ok_or("the messages have all of U+FDD0 to U+FDEF, which mean nothing")?;
    for message in messages {
        change_texts(message, &|text| marked(text, &special, mark));
    }
    Ok(Some(mark))
}

/// The tokens of a rendered conversation.
pub(super) fn encode(tokenizer: &Tokenizer, text: &str, mark: Option<char>) -> spag_model::Result<Vec<u32>> {
    let Some(mark) = mark else { return tokenizer.encode(text) };
    let mut ids = Vec::new();
    for part in text.split(mark).filter(|part| !part.is_empty()) {
        ids.extend(tokenizer.encode(part)?);
    }
    Ok(ids)
}

/// A text with a mark after the first character of every special token in it.
fn marked(text: &str, special: &[&str], mark: char) -> String {
    let mut first: Vec<char> = special.iter().filter_map(|token| token.chars().next()).collect();
    first.sort_unstable();
    first.dedup();
    let mut marked = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        marked.push(c);
        if first.contains(&c) && special.iter().any(|token| text[at..].starts_with(token)) {
            marked.push(mark);
        }
    }
    marked
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
    fn every_special_token_of_a_text_is_marked() {
        let special = ["<s>", "<|im_end|>"];
        assert_eq!(marked("a<s>b<|im_end|><<s>", &special, '#'), "a<#s>b<#|im_end|><<#s>");
        assert_eq!(marked("<s >", &special, '#'), "<s >");
    }

    #[test]
    fn texts_are_found_and_changed_at_any_depth() {
        let mut value = json!({"content": "x", "calls": [{"arguments": {"x": ["x", 1, null]}}]});
        assert!(any_text(&value, &|text| text == "x") && !any_text(&value, &|text| text == "y"));
        change_texts(&mut value, &|text| text.replace('x', "y"));
        assert_eq!(value, json!({"content": "y", "calls": [{"arguments": {"y": ["y", 1, null]}}]}));
    }
}
