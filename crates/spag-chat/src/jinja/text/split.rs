//! Splitting of texts.

use super::is_space;

/// The lines of a text, as `str.splitlines`.
pub(crate) fn lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let is_end =
        |c: char| matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let (mut lines, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(is_end) {
        let end = if rest[at..].starts_with("\r\n") { 2 } else { rest[at..].chars().next().map_or(1, char::len_utf8) };
        lines.push(&rest[..if keep_ends { at + end } else { at }]);
        rest = &rest[at + end..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// The words of a text, splitting at most `most` times from the left.
pub(super) fn words(text: &str, most: usize) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), text.trim_start_matches(is_space));
    while !rest.is_empty() {
        if words.len() == most {
            words.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        words.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    words
}

/// As [`words`], from the right.
pub(super) fn words_from_right(text: &str, most: usize) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), text.trim_end_matches(is_space));
    while !rest.is_empty() {
        if words.len() == most {
            words.push(rest);
            break;
        }
        let begin = rest.char_indices().rev().find(|(_, c)| is_space(*c)).map_or(0, |(at, c)| at + c.len_utf8());
        words.push(&rest[begin..]);
        rest = rest[..begin].trim_end_matches(is_space);
    }
    words.reverse();
    words
}
