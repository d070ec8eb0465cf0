//! JSON as Python's `json.dumps` writes it, for the filter `tojson`.

use std::io;

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// The arguments of `json.dumps` that templates use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Blanks of a level; `None` is one line.
    pub(crate) indent: Option<usize>,
    /// Whether other characters than ASCII are escaped.
    pub(crate) ascii: bool,
    /// Whether the keys of objects are sorted.
    pub(crate) sorted: bool,
}

/// One line with blanks after commas and colons.
struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// A value as Python writes it.
pub(crate) fn dumps(value: &Value, style: Style) -> Result<String, serde_json::Error> {
    let mut value = value.clone();
    if style.sorted {
        value.sort_all_objects();
    }
    let mut bytes = Vec::new();
    match style.indent {
        None => value.serialize(&mut Serializer::with_formatter(&mut bytes, OneLine))?,
        Some(indent) => {
            let blanks = " ".repeat(indent);
            let formatter = PrettyFormatter::with_indent(blanks.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter))?;
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(if style.ascii { escape(&text) } else { text })
}

/// Writes other characters than ASCII as UTF-16 in hexadecimal. They occur within strings only.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            escaped.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped.push_str(&format!("\\u{unit:04x}")));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_written_as_in_python() {
        let value = json!({"b": [1, 2.5, null, true], "a": {"é": "\"🐎\n"}, "c": [], "d": {}});
        let one = dumps(&value, Style::default()).unwrap();
        assert_eq!(one, "{\"b\": [1, 2.5, null, true], \"a\": {\"é\": \"\\\"🐎\\n\"}, \"c\": [], \"d\": {}}");
        let sorted = dumps(&value, Style { ascii: true, sorted: true, indent: None }).unwrap();
        assert!(sorted.starts_with("{\"a\": {\"\\u00e9\": \"\\\"\\ud83d\\udc0e\\n\"}, \"b\""), "{sorted}");
        let lines = dumps(&json!({"a": [1], "b": {}}), Style { indent: Some(4), ..Style::default() }).unwrap();
        assert_eq!(lines, "{\n    \"a\": [\n        1\n    ],\n    \"b\": {}\n}");
    }
}
