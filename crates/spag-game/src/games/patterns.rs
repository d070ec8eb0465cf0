//! Scanners that find what the patterns of Python's `re` find in an action.
//!
//! They differ from the crate `regex` in Python's classes: `\s` has U+001C to U+001F, `\d` is any decimal digit, and letters
//! in any case have the few characters that lower-case or upper-case to an ASCII letter.

use std::cmp::Ordering;

/// The zeros of all decimal digits; nine digits follow each.
const ZEROS: &[u32] = &[
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
    0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620,
    0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0,
    0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x11f50,
    0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e950,
    0x1fbf0,
];

/// The value of a decimal digit of any script: `\d`.
fn digit(c: char) -> Option<u8> {
    let code = u32::from(c);
    let zero = ZEROS[ZEROS.partition_point(|zero| *zero <= code).checked_sub(1)?];
    (code - zero < 10).then_some((code - zero) as u8)
}

/// White space: `\s`, and Python's `str.split`.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The lower-case ASCII letter that a character matches in any case: `[A-Za-z]` with `re.IGNORECASE`.
pub(crate) fn letter(c: char) -> Option<char> {
    match c {
        'A'..='Z' | 'a'..='z' => Some(c.to_ascii_lowercase()),
        '\u{130}' | '\u{131}' => Some('i'),
        '\u{17f}' => Some('s'),
        '\u{212a}' => Some('k'),
        _ => None,
    }
}

/// A whole number of any length: decimal digits without leading zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Natural(Vec<u8>);

impl Natural {
    /// The number, or the largest `u64` if it is larger.
    pub(crate) fn saturated(&self) -> u64 {
        let digits = self.0.iter();
        digits.fold(0u64, |value, digit| value.saturating_mul(10).saturating_add(u64::from(*digit)))
    }

    /// The number as an index below `len`.
    pub(crate) fn index_below(&self, len: usize) -> Option<usize> {
        usize::try_from(self.saturated()).ok().filter(|index| *index < len)
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.cmp(&other.0))
    }
}

/// The rest of a text, from which parts of a pattern are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(pub(crate) &'a str);

impl<'a> Cursor<'a> {
    /// Takes the longest run of characters that `belongs` accepts, also an empty one.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.0.find(|c| !belongs(c)).unwrap_or(self.0.len());
        let (run, rest) = self.0.split_at(end);
        self.0 = rest;
        run
    }

    /// `\s*`. Whether there was any.
    pub(crate) fn spaces(&mut self) -> bool {
        !self.run(is_space).is_empty()
    }

    /// `[,\s]+`.
    pub(crate) fn commas_and_spaces(&mut self) -> Option<()> {
        (!self.run(|c| c == ',' || is_space(c)).is_empty()).then_some(())
    }

    /// `\d+`.
    pub(crate) fn number(&mut self) -> Option<Natural> {
        let run = self.run(|c| digit(c).is_some());
        let digits = run.chars().filter_map(digit).skip_while(|digit| *digit == 0).collect();
        (!run.is_empty()).then_some(Natural(digits))
    }

    /// `[A-Za-z]+` in any case.
    pub(crate) fn letters(&mut self) -> Option<&'a str> {
        Some(self.run(|c| letter(c).is_some())).filter(|run| !run.is_empty())
    }

    /// A text of lower-case letters and other characters of ASCII, in any case.
    pub(crate) fn text(&mut self, text: &str) -> Option<()> {
        let mut rest = self.0.chars();
        text.chars().all(|expected| rest.next().is_some_and(|c| c == expected || letter(c) == Some(expected))).then(
            || {
                self.0 = rest.as_str();
            },
        )
    }
}

/// The first place behind a `[` at which `pattern` matches.
pub(crate) fn after_bracket<'a, T>(text: &'a str, pattern: impl Fn(Cursor<'a>) -> Option<T>) -> Option<T> {
    memchr::memchr_iter(b'[', text.as_bytes()).find_map(|at| pattern(Cursor(&text[at + 1..])))
}

/// Whether `[text]` is in an action, in any case.
pub(crate) fn has_token(action: &str, token: &str) -> bool {
    let found = |mut at: Cursor<'_>| {
        at.text(token)?;
        at.text("]")
    };
    after_bracket(action, found).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_digits_of_any_script_and_any_length() {
        let number = |text| Cursor(text).number();
        assert_eq!(number("007x"), number("٧"));
        assert_eq!(number("00").map(|n| n.saturated()), Some(0));
        assert_eq!(number("𝟗９").map(|n| n.saturated()), Some(99));
        assert_eq!(number("²"), None);
        let long = "9".repeat(10_000);
        assert_eq!(number(&long).map(|n| n.saturated()), Some(u64::MAX));
        assert!(number("18446744073709551617") > number("18446744073709551616"));
        assert!(number("10") > number("09"));
    }

    #[test]
    fn tokens_are_found_in_any_case() {
        assert!(has_token("x [chec [CHEC\u{212a}]", "check") && has_token("[bıd]", "bid") && has_token("[ſ]", "s"));
        assert!(!has_token("[check ]", "check") && !has_token("check", "check") && !has_token("[chec", "check"));
        assert!(is_space('\u{1f}') && is_space('\u{85}') && !is_space('\u{200b}'));
    }
}
