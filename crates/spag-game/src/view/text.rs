//! Texts as they stand between quotation marks in JSON.

use std::borrow::Cow;

/// A text in the form that `serde_json` writes it in, without the quotation marks.
///
/// That form is unique, so it can be copied from one file to another as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonText<'a> {
    json: Cow<'a, str>,
    /// There is an escape sequence in it; without one it is the text itself.
    escapes: bool,
}

impl<'a> JsonText<'a> {
    /// The JSON form of any text.
    pub fn of(text: &str) -> Self {
        let json = escaped(text);
        Self { escapes: json.len() != text.len(), json: Cow::Owned(json) }
    }

    /// Text without escape sequences, and without characters that need one.
    pub(super) fn without_escapes(json: &'a str) -> Self {
        Self { json: Cow::Borrowed(json), escapes: false }
    }

    /// Text between quotation marks with escape sequences, well-formed or not; `None` where it is not.
    pub(super) fn with_escapes(json: &'a str) -> Option<Self> {
        match is_as_written(json) {
            true => Some(Self { json: Cow::Borrowed(json), escapes: true }),
            // Other ways to write the same text are legal too.
            false => unescaped(json).map(|text| Self::of(&text)),
        }
    }

    /// The text as JSON, without the quotation marks.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The text.
    pub fn text(&self) -> Cow<'_, str> {
        match self.escapes {
            false => Cow::Borrowed(&self.json),
            true => Cow::Owned(unescaped(&self.json).unwrap_or_default()),
        }
    }
}

/// The text as `serde_json` writes it, without the quotation marks.
pub(crate) fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// Whether every escape sequence is one of those that `serde_json` writes, but for the rare `\u`.
fn is_as_written(json: &str) -> bool {
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'\\' && !bytes.next().is_some_and(|next| simple(next).is_some() && next != b'/') {
            return false;
        }
    }
    true
}

/// What an escape sequence of one letter stands for.
fn simple(letter: u8) -> Option<char> {
    Some(match letter {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        _ => return None,
    })
}

/// The text that a JSON form stands for; `None` if it is not well-formed.
fn unescaped(json: &str) -> Option<String> {
    let mut text = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        text.push_str(rest.get(..at)?);
        match simple(*rest.as_bytes().get(at + 1)?) {
            Some(c) => {
                text.push(c);
                rest = rest.get(at + 2..)?;
            }
            // \u and what may follow it is rare: the parser knows all about it.
            None => return serde_json::from_str(&format!("\"{json}\"")).ok(),
        }
    }
    text.push_str(rest);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_way_to_write_a_text_gives_one_form() {
        for (json, form) in [
            (r"a\/b", "a/b"),
            (r"\u0041\u00e9\ud83d\ude00", "Aé😀"),
            (r"\u000a\u0001", r"\n\u0001"),
            (r#"\"\\\n\t\r\b\f"#, r#"\"\\\n\t\r\b\f"#),
        ] {
            let text = JsonText::with_escapes(json).unwrap();
            assert_eq!(text.json(), form);
            assert_eq!(text.text(), serde_json::from_str::<String>(&format!("\"{json}\"")).unwrap());
        }
        for bad in [r"\x", r"\u12", r"\ud83d", r"\ude00\ud83d", "\\"] {
            assert_eq!(JsonText::with_escapes(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn there_and_back(text in any::<String>()) {
            let json = JsonText::of(&text);
            prop_assert_eq!(json.text(), text.as_str());
            prop_assert_eq!(format!("\"{}\"", json.json()), serde_json::to_string(&text).unwrap());
        }
    }
}
