//! Text wrapped for a terminal.

use std::borrow::Cow;

use textwrap::{Options, WordSeparator, WordSplitter};
use unicode_width::UnicodeWidthChar;

/// Wraps a line at blanks to at most `width` columns. Breaks words that are wider anywhere.
pub(super) fn wrap(line: &str, width: usize) -> Vec<String> {
    let options =
        Options::new(width).word_separator(WordSeparator::AsciiSpace).word_splitter(WordSplitter::NoHyphenation);
    textwrap::wrap(line, options).into_iter().map(String::from).collect()
}

/// The most combining marks and other characters without width that are printed in a row. UAX #15 calls text with up to 30
/// stream-safe; terminals draw many more over each other, and take seconds or minutes for it.
const MARKS: usize = 30;

/// Leaves out all but the first [`MARKS`] of a row of characters without width, and says how many.
pub(super) fn limit_marks(text: &str) -> Cow<'_, str> {
    let is_mark = |c: &char| UnicodeWidthChar::width(*c) == Some(0);
    let mut longest = (0, 0);
    for c in text.chars() {
        longest.0 = if is_mark(&c) { longest.0 + 1 } else { 0 };
        longest.1 = longest.0.max(longest.1);
    }
    if longest.1 <= MARKS {
        return Cow::Borrowed(text);
    }
    let mut limited = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        limited.push(c);
        let mut marks = 0;
        while let Some(mark) = chars.next_if(is_mark) {
            marks += 1;
            if marks <= MARKS {
                limited.push(mark);
            }
        }
        if marks > MARKS {
            limited.push_str(&format!(" ({} marks left out) ", marks - MARKS));
        }
    }
    Cow::Owned(limited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_of_marks_are_left_out() {
        let marked = |marks: usize| format!("e{} tea", "\u{301}".repeat(marks));
        assert!(matches!(limit_marks(&marked(30)), Cow::Borrowed(_)));
        let said = limit_marks(&marked(200_000)).into_owned();
        assert_eq!(said, format!("e{} (199970 marks left out)  tea", "\u{301}".repeat(30)));
        assert!(limit_marks(&"\u{301}".repeat(100)).contains("(69 marks left out)"));
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
