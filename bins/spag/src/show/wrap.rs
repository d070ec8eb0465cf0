//! Lines no wider than the page.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A line broken into lines of `width` columns at most, at blanks where there are any; a word that is wider is broken
/// anywhere. A blank line stays one line.
pub(super) fn wrap(line: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    for word in line.split_inclusive(' ') {
        // The blank behind a word may hang over the edge.
        if !current.is_empty() && current.width() + word.trim_end().width() > width {
            lines.push(std::mem::take(&mut current));
        }
        for c in word.chars() {
            if c != ' ' && !current.is_empty() && current.width() + c.width().unwrap_or(0) > width {
                lines.push(std::mem::take(&mut current));
            }
            current.push(c);
        }
    }
    if !current.is_empty() || lines.is_empty() {
        lines.push(current);
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_blanks_or_anywhere_by_columns() {
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
