//! One row of a file, and error messages for invalid JSON that name the key and the position.

use std::path::Path;

use serde::{Deserialize, Deserializer};

use crate::display::{abridge, escape};
use crate::error::{Error, Result};

/// Maximum bytes of a parser message, which may repeat a key or a string of the file.
const MAX_MESSAGE: usize = 400;

/// How rows are laid out in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Elements of one JSON list.
    List,
    /// JSONL: one value a line. Blank lines are skipped.
    Lines,
}

/// One row of a file, not parsed yet.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub(crate) path: &'a Path,
    pub(crate) layout: Layout,
    pub(crate) number: usize,
    pub(crate) bytes: &'a [u8],
}

impl<'a> Row<'a> {
    /// The 1-based row: an element of a list, a line of JSONL.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Parses the row as a `T`, which may borrow from it.
    ///
    /// # Errors
    /// The row is not a `T`. The error names file, row and cause.
    pub fn parse<T: Deserialize<'a>>(&self) -> Result<T> {
        // Checking UTF-8 once is faster than string by string.
        let parsed = match std::str::from_utf8(self.bytes) {
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(self.bytes),
        };
        parsed.map_err(|error| {
            let hint = match self.layout {
                _ if !error.is_eof() => "",
                Layout::List => "; is the file cut off?",
                Layout::Lines => "; is the file cut off, or one object spread over several lines?",
            };
            self.error(format!("{}{hint}", cause::<T>(self.bytes, "row", &error)))
        })
    }

    /// An error about this row.
    pub fn error(&self, reason: impl Into<String>) -> Error {
        Error::Row { path: self.path.to_owned(), row: self.number, reason: reason.into() }
    }
}

/// A one-line message for an `error` from parsing `text` as a `T`: the key, the cause and the position. `whole` names
/// the text, "row" or "file".
pub fn cause<'a, T: Deserialize<'a>>(text: &'a [u8], whole: &str, error: &serde_json::Error) -> String {
    let position = match error.line() {
        0 | 1 => format!("column {} of the {whole}", error.column()),
        line => format!("line {line}, column {} of the {whole}", error.column()),
    };
    if let Some(number) = non_json_number(text, error) {
        return format!("{number} is no JSON; write a number or null ({position})");
    }
    // The message without its " at line 1 column 17".
    let full = error.to_string();
    let message = full.rsplit_once(" at line ").map_or(full.as_str(), |(message, _)| message);
    let message = format!("{}{message}", key_path::<T>(text));
    format!("{} ({position})", escape(&abridge(&message, MAX_MESSAGE)))
}

/// The non-JSON number that Python's json module writes (`NaN`, `Infinity`), if it is at the error.
fn non_json_number(text: &[u8], error: &serde_json::Error) -> Option<&'static str> {
    let lines = text.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let offset = lines.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1);
    // The error is at the first invalid byte or one byte later.
    let starts_with = |number: &str, at: usize| text.get(at..).is_some_and(|rest| rest.starts_with(number.as_bytes()));
    let mut numbers = ["-Infinity", "Infinity", "NaN"].into_iter();
    numbers.find(|number| starts_with(number, offset) || starts_with(number, offset.saturating_sub(1)))
}

/// The path to a value of the wrong type, as in "history[3].content: ".
fn key_path<'a, T: Deserialize<'a>>(text: &'a [u8]) -> String {
    let mut json = serde_json::Deserializer::from_slice(text);
    match serde_path_to_error::deserialize::<_, T>(&mut json) {
        Err(error) if error.inner().is_data() && error.path().iter().next().is_some() => format!("{}: ", error.path()),
        _ => String::new(),
    }
}

/// Deserializes null as the default, for `#[serde(default, deserialize_with = …)]`: other programs write null for absent keys.
///
/// # Errors
/// A value of another type.
pub fn null_is_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
