//! Messages for invalid JSON that name the key and the position.

use serde::de::DeserializeOwned;

/// What Python's json module writes for numbers that JSON does not have.
const NOT_JSON: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// A message for an `error` from parsing `text` as a `T`: the key, the cause and the position. `whole` is what the text
/// is, "row" or "file".
pub fn cause<T: DeserializeOwned>(text: &[u8], whole: &str, error: &serde_json::Error) -> String {
    let from = offset(text, error);
    // The error stands at the byte that did not fit, or at the one before it.
    let number = NOT_JSON.iter().find(|number| (0..=1).any(|back| starts_at(text, from.saturating_sub(back), number)));
    let place = match error.line() {
        0 | 1 => format!("column {} of the {whole}", error.column()),
        line => format!("line {line}, column {} of the {whole}", error.column()),
    };
    match number {
        Some(number) => format!("{} is no JSON; write a number or null ({place})", String::from_utf8_lossy(number)),
        None => format!("{}{} ({place})", key::<T>(text), message(error)),
    }
}

/// Where in the text the error stands.
fn offset(text: &[u8], error: &serde_json::Error) -> usize {
    let before: usize =
        text.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    before + error.column().saturating_sub(1)
}

fn starts_at(text: &[u8], at: usize, number: &[u8]) -> bool {
    text.get(at..).is_some_and(|rest| rest.starts_with(number))
}

/// The path to the value that is of the wrong type, as in "history[3].content: ".
fn key<T: DeserializeOwned>(text: &[u8]) -> String {
    let mut json = serde_json::Deserializer::from_slice(text);
    match serde_path_to_error::deserialize::<_, T>(&mut json) {
        Err(error) if error.inner().is_data() && error.path().iter().next().is_some() => format!("{}: ", error.path()),
        _ => String::new(),
    }
}

/// serde_json's message without its " at line 1 column 17", which would be said twice.
fn message(error: &serde_json::Error) -> String {
    let full = error.to_string();
    match full.rfind(" at line ") {
        Some(end) => full[..end].to_owned(),
        None => full,
    }
}
