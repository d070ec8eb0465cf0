//! Requests: one JSON object a line.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::answer::{Code, Problem};

/// What a line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// A new game.
    Reset {
        /// Its seed; drawn if there is none.
        seed: Option<u64>,
        /// Options of the game.
        options: Map<String, Value>,
    },
    /// The text of the player to move.
    Step {
        /// The text.
        action: String,
    },
    /// The end of the session.
    Close,
}

impl Request {
    /// Parses a line.
    ///
    /// # Errors
    /// It is not a JSON object, or not a request, or a key has an invalid value.
    pub fn parse(line: &[u8]) -> Result<Self, Problem> {
        let mut request = parse_object("line", line)?;
        let wrong = |reason: &str| Err(Problem::new(Code::Validation, reason.to_owned()));
        match request.get("type").and_then(Value::as_str) {
            Some("reset") => {
                let seed = parse_seed(request.get("seed"))?;
                match request.remove("options") {
                    None => Ok(Self::Reset { seed, options: Map::new() }),
                    Some(Value::Object(options)) => Ok(Self::Reset { seed, options }),
                    Some(_) => wrong("options needs an object"),
                }
            }
            Some("step") => match request.remove("action") {
                Some(Value::String(action)) => Ok(Self::Step { action }),
                _ => wrong("action needs a string"),
            },
            Some("close") => Ok(Self::Close),
            _ => {
                let reason = "type needs one of \"reset\", \"step\", \"close\"".to_owned();
                Err(Problem::new(Code::UnknownType, reason))
            }
        }
    }
}

/// The JSON object in the bytes of a `what`: a line, or a message.
///
/// # Errors
/// They are not UTF-8, not JSON, or JSON of another kind.
pub fn parse_object(what: &str, bytes: &[u8]) -> Result<Map<String, Value>, Problem> {
    let invalid = |reason: String| Problem::new(Code::InvalidJson, format!("the {what} is not {reason}"));
    let text = std::str::from_utf8(bytes).map_err(|error| invalid(format!("UTF-8: {error}")))?;
    let parsed = serde_json::from_str(&whole_surrogates(text));
    match parsed.map_err(|error| invalid(format!("JSON: {error}")))? {
        Value::Object(object) => Ok(object),
        _ => Err(invalid("a JSON object".to_owned())),
    }
}

/// The seed of a reset; `None` if it is to be drawn.
///
/// # Errors
/// It is not a whole number in range.
pub fn parse_seed(seed: Option<&Value>) -> Result<Option<u64>, Problem> {
    match seed {
        None | Some(Value::Null) => Ok(None),
        Some(seed) => seed
            .as_u64()
            .map(Some)
            .ok_or_else(|| Problem::new(Code::Validation, "seed needs a whole number from 0 to 2^64-1".to_owned())),
    }
}

/// JSON in which escapes of half a surrogate pair, which Python writes, are those of U+FFFD: no text has half a pair.
fn whole_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    };
    let (mut whole, mut at, mut copied) = (String::with_capacity(text.len()), 0, 0);
    while let Some(found) = memchr::memchr(b'\\', &text.as_bytes()[at..]) {
        at += found;
        match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 12,
            (Some(0xd800..=0xdfff), _) => {
                whole.push_str(&text[copied..at]);
                whole.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            // An escape of one character. What follows a backslash need not be ASCII if the text is not JSON.
            _ => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    whole.push_str(&text[copied..]);
    Cow::Owned(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_surrogate_pairs_are_replaced() {
        let said = |action: &str| match Request::parse(format!(r#"{{"type":"step","action":"{action}"}}"#).as_bytes()) {
            Ok(Request::Step { action }) => Some(action),
            _ => None,
        };
        assert_eq!(said(r"a\ud83d\ude00b\uD800").as_deref(), Some("a😀b\u{fffd}"));
        assert_eq!(said(r"\\ud800\udc00\ud800x").as_deref(), Some("\\ud800\u{fffd}\u{fffd}x"));
        // Escapes between characters of several bytes.
        assert_eq!(said(r"é\né\u0041\ud800é\\").as_deref(), Some("é\né\u{41}\u{fffd}é\\"));
        assert_eq!(said(r"\ud800x").as_deref(), Some("\u{fffd}x"));
        assert_eq!(said(r"\uD800x").as_deref(), Some("\u{fffd}x"));
        assert_eq!(said(r"\ud8é"), None);
        assert_eq!(said(r"\ud800\é"), None);
    }
}
