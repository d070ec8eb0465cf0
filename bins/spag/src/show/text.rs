//! Text wrapped for a terminal.

use textwrap::{Options, WordSeparator, WordSplitter};

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
