//! Sanitizes text from files, models and peers for terminals, logs and tables.
//!
//! An utterance, a configuration key or the reply of an endpoint may hold escape sequences that drive a terminal,
//! newlines that forge table rows, or megabytes of text. Error types keep the raw text; [`escape`] and [`abridge`] are
//! applied once, on output.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes everything that could control a terminal, start a line or reorder text: control characters, with which
/// escape sequences start, and characters that are invisible or change the direction of writing.
///
/// Escaped text is returned unchanged, so that escaping twice does no harm.
///
/// ```
/// assert_eq!(spag_io::escape("a\x1b]0;title\x07\nb"), r"a\u{1b}]0;title\u{7}\nb");
/// ```
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_unless(text, is_harmless)
}

/// [`escape`] for multi-line text: keeps newlines, and indents every line after the first by two columns, so that
/// foreign text cannot imitate a line of the program.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    match escape_table(text) {
        lines if lines.contains('\n') => lines.replace('\n', "\n  ").into(),
        line => line,
    }
}

/// [`escape`] for multi-line output whose parts are escaped one by one: keeps newlines.
pub fn escape_table(text: &str) -> Cow<'_, str> {
    escape_unless(text, |c| c == '\n' || is_harmless(c))
}

fn escape_unless(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(|c| !keep(c)) else { return Cow::Borrowed(text) };
    let (kept, rest) = text.split_at(first);
    let mut escaped = String::with_capacity(text.len() + 16);
    escaped.push_str(kept);
    for c in rest.chars() {
        if keep(c) {
            escaped.push(c);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "{}", c.escape_default());
        }
    }
    Cow::Owned(escaped)
}

fn is_harmless(c: char) -> bool {
    // Unicode's Cc; zero width and directional marks (UAX #9), line and paragraph separators; byte order mark; tags.
    !(c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'))
}

/// Shortens text to about `limit` bytes: its start and its end, with the number of bytes left out between them.
///
/// ```
/// assert_eq!(spag_io::abridge("0123456789", 10), "0123456789");
/// assert_eq!(spag_io::abridge(&"x".repeat(1000), 8), "xxxxxx… (992 bytes left out) …xx");
/// ```
pub fn abridge(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let boundary = |at: &usize| text.is_char_boundary(*at);
    let start = (0..=limit - limit / 4).rev().find(boundary).unwrap_or(0);
    let end = (text.len() - limit / 4..text.len()).find(boundary).unwrap_or(text.len());
    format!("{}… ({} bytes left out) …{}", &text[..start], end - start, &text[end..]).into()
}

/// Data quoted in a message or a table: escaped, on one line, at most about 200 bytes.
pub fn quote(text: &str) -> String {
    const LIMIT: usize = 200;
    escape(&abridge(text, LIMIT)).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terminal_controls_are_escaped() {
        for (said, written) in [
            ("plain, naïve, 日本語 🐎", "plain, naïve, 日本語 🐎"),
            ("\x1b[2J\x07", "\\u{1b}[2J\\u{7}"),
            ("a\rb\tc\0", "a\\rb\\tc\\u{0}"),
            ("\u{9b}31m\x7f", "\\u{9b}31m\\u{7f}"),
            ("\u{202e}evil\u{2066}\u{200b}", "\\u{202e}evil\\u{2066}\\u{200b}"),
            ("back\\slash", "back\\slash"),
        ] {
            assert_eq!(escape(said), written);
        }
    }

    #[test]
    fn later_lines_are_indented() {
        assert_eq!(escape_lines("one\nerror: two\x07"), "one\n  error: two\\u{7}");
    }

    proptest! {
        #[test]
        fn quoted_text_is_one_short_line(text in ".{0,300}\\PC*") {
            let quoted = quote(&text);
            prop_assert!(quoted.chars().all(is_harmless));
            prop_assert_eq!(escape(&quoted), quoted.as_str());
            // A character takes at most ten bytes when it is escaped.
            prop_assert!(quoted.len() <= 10 * 200 + 40, "{}", quoted.len());
        }
    }
}
