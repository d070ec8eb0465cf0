//! Python's `str.strip()`.

/// `text` without leading and trailing whitespace, by Python's idea of whitespace.
///
/// It is Unicode's, which [`str::trim`] follows, and the four ASCII separators U+001C to U+001F besides.
pub(crate) fn strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c))
}

#[cfg(test)]
mod tests {
    use super::strip;

    #[test]
    fn strips_what_python_strips() {
        assert_eq!(strip("\u{1c}\u{1f} \t\n\u{b}\u{85}\u{a0}\u{1680}\u{2003}\u{2028}\u{3000}a b\u{1d}\u{1e}"), "a b");
        // Neither a zero-width space nor a byte order mark is whitespace to Python.
        assert_eq!(strip("\u{200b}a\u{feff}"), "\u{200b}a\u{feff}");
        assert_eq!(strip(" \n "), "");
    }
}
