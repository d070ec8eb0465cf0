//! Validates the messages of a conversation and converts their contents to text.

use serde_json::{Map, Value};
use spag_io::quote;

use super::error::ApiError;
use super::fields::{Fields, shown};
use crate::json_size::JsonSize;
use crate::limits::MAX_MESSAGES;

/// Roles of OpenAI's API that templates know. Each template decides which roles it accepts, and in what order.
const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// Keys of reasoning: the usual one, and that of newer servers.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];

/// The messages of a request as passed to a template: `role`, `content` as text, and the keys that templates may
/// read.
pub(super) fn messages(value: Option<Value>) -> Result<Vec<Value>, ApiError> {
    let Some(Value::Array(list)) = value else {
        return Err(ApiError::field("messages", "expected a list of messages"));
    };
    if list.is_empty() || list.len() > MAX_MESSAGES {
        return Err(ApiError::field("messages", format_args!("expected 1 to {MAX_MESSAGES} messages")));
    }
    let mut size = JsonSize::default();
    list.into_iter().enumerate().map(|(at, value)| message(&format!("messages[{at}]"), value, &mut size)).collect()
}

/// One message. `size` accumulates over all tool arguments, which are JSON within JSON.
fn message(at: &str, value: Value, size: &mut JsonSize) -> Result<Value, ApiError> {
    let Value::Object(object) = value else {
        return Err(ApiError::field(at, format_args!("expected an object, not {}", shown(&value))));
    };
    let mut fields = Fields::new(object);
    let within = |error: ApiError| error.within(at);
    let role = fields.text("role").map_err(within)?.unwrap_or_default();
    if !ROLES.contains(&role.as_str()) {
        let roles = ROLES.join(", ");
        return Err(ApiError::field(
            format!("{at}.role"),
            format_args!("expected one of {roles}, not {:?}", quote(&role)),
        ));
    }
    let mut message = Map::new();
    let tool_calls = fields.take("tool_calls");
    let is_without = tool_calls.is_some() || REASONING.iter().any(|key| fields.has(key));
    let content = match fields.take("content") {
        Some(content) => content_text(&format!("{at}.content"), content)?,
        // An assistant message with only tool calls or only reasoning.
        None if role == "assistant" && is_without => String::new(),
        None => return Err(ApiError::field(format!("{at}.content"), "it is missing")),
    };
    message.insert("role".into(), role.into());
    message.insert("content".into(), content.into());
    for key in ["name", "tool_call_id"].iter().chain(&REASONING) {
        message.extend(fields.text(key).map_err(within)?.map(|text| ((*key).to_owned(), text.into())));
    }
    if let Some(calls) = tool_calls {
        message.insert("tool_calls".into(), self::tool_calls(&format!("{at}.tool_calls"), calls, size)?);
    }
    fields.finish(&["refusal", "annotations"]).map_err(within)?;
    Ok(message.into())
}

/// A text, or the texts of a list of parts, joined by newlines.
fn content_text(at: &str, content: Value) -> Result<String, ApiError> {
    match content {
        Value::String(text) => Ok(text),
        Value::Array(parts) => {
            let texts: Vec<&str> = parts.iter().map(|part| part_text(at, part)).collect::<Result<_, _>>()?;
            Ok(texts.join("\n"))
        }
        other => Err(ApiError::field(at, format_args!("expected a string or a list of parts, not {}", shown(&other)))),
    }
}

fn part_text<'a>(at: &str, part: &'a Value) -> Result<&'a str, ApiError> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    match part.get("text").and_then(Value::as_str) {
        Some(text) if kind == "text" => Ok(text),
        _ if kind == "text" => Err(ApiError::field(at, "a part of type \"text\" needs the string `text`")),
        _ => Err(ApiError::field(at, format_args!("parts of type {:?} are not supported; only \"text\"", quote(kind)))),
    }
}

/// Tool calls, with arguments parsed to objects, as templates expect. OpenAI's API has them as JSON strings.
fn tool_calls(at: &str, calls: Value, size: &mut JsonSize) -> Result<Value, ApiError> {
    let Value::Array(mut calls) = calls else { return Err(ApiError::field(at, "expected a list")) };
    for call in &mut calls {
        if let Some(arguments) = call.pointer_mut("/function/arguments")
            && let Some(text) = arguments.as_str()
        {
            size.add(text.as_bytes()).map_err(|error| ApiError::field(at, format_args!("`arguments`: {error}")))?;
            let parsed = serde_json::from_str(text).ok().filter(Value::is_object);
            *arguments = parsed.ok_or_else(|| ApiError::field(at, "`arguments` is not an object in JSON"))?;
        }
    }
    Ok(calls.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contents_are_texts_or_lists_of_texts() {
        let read = messages(Some(json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": null},
            {"role": "assistant", "content": "c", "audio": null, "function_call": null, "reasoning": null, "tool_calls": null},
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"x\": 1}"}}]},
            {"role": "tool", "content": "1", "tool_call_id": "c"},
            {"role": "assistant", "content": "d", "reasoning_content": "e"},
            {"role": "assistant", "content": null, "reasoning": "f"},
        ])));
        let expected = json!([
            {"role": "system", "content": "s"},
            {"role": "user", "content": "a\nb"},
            {"role": "assistant", "content": "c"},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]},
            {"role": "tool", "content": "1", "tool_call_id": "c"},
            {"role": "assistant", "content": "d", "reasoning_content": "e"},
            {"role": "assistant", "content": "", "reasoning": "f"},
        ]);
        assert_eq!(Value::Array(read.unwrap()), expected);
    }

    #[test]
    fn errors_name_the_place() {
        for (value, said) in [
            (json!(null), "messages: expected a list"),
            (json!([]), "messages: expected 1 to"),
            (json!(["x"]), "messages[0]: expected an object, not \"x\""),
            (json!([{"content": "x"}]), "messages[0].role: expected one of"),
            (json!([{"role": "user", "content": "x"}, {"role": "function", "content": "x"}]), "messages[1].role"),
            (json!([{"role": "user"}]), "messages[0].content: it is missing"),
            (json!([{"role": "user", "reasoning_content": "x"}]), "messages[0].content: it is missing"),
            (json!([{"role": "assistant", "reasoning": {}}]), "messages[0].reasoning: expected a string"),
            (json!([{"role": "user", "content": 3}]), "not 3"),
            (
                json!([{"role": "user", "content": [{"type": "image_url"}]}]),
                "parts of type \"image_url\" are not supported",
            ),
            (json!([{"role": "user", "content": "x", "name": 3}]), "messages[0].name: expected a string"),
            (json!([{"role": "user", "content": "x", "audio": {}}]), "messages[0].audio: Unrecognized"),
        ] {
            let error = messages(Some(value)).unwrap_err();
            assert!(error.message.contains(said), "{}", error.message);
        }
    }
}
