//! Text of a model for a terminal: escaped and wrapped.

use textwrap::{Options, WordSeparator, WordSplitter};

/// Escapes everything that could control a terminal or reorder text: control characters, with which escape sequences
/// start, and marks that are invisible or change the direction of writing.
pub(super) fn escape(line: &str) -> String {
    let escaped = |c: char| -> String { if is_harmless(c) { c.into() } else { c.escape_default().collect() } };
    line.chars().map(escaped).collect()
}

fn is_harmless(c: char) -> bool {
    // Unicode's Cc; zero width and directional marks (UAX #9), line and paragraph separators; byte order mark; tags.
    !(c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{61c}' | '\u{180e}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'))
}

/// Wraps a line at blanks to at most `width` columns. Breaks words that are wider anywhere.
pub(super) fn wrap(line: &str, width: usize) -> Vec<String> {
    let options =
        Options::new(width).word_separator(WordSeparator::AsciiSpace).word_splitter(WordSplitter::NoHyphenation);
    textwrap::wrap(line, options).into_iter().map(String::from).collect()
}

#[cfg(test)]
mod tests {
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
    fn lines_are_wrapped_by_columns() {
        for (line, width, lines) in [
            ("", 5, &[""][..]),
            ("one two three", 7, &["one two", "three"]),
            ("one two three", 100, &["one two three"]),
            ("abcdefgh ij", 3, &["abc", "def", "gh", "ij"]),
            ("日本語", 4, &["日本", "語"]),
            ("a  b", 4, &["a  b"]),
            ("日", 1, &["日"]),
        ] {
            assert_eq!(wrap(line, width), lines, "{line:?}");
        }
    }
}
