//! Numbers and strings in a template.

use super::lexer::Kind;
use crate::jinja::error::{Error, Result, fail};

/// Parses the number at the start of a text; returns it with its length. After a dot it is an integer.
pub(super) fn number(text: &str, after_dot: bool) -> Result<(Kind, usize)> {
    let bytes = text.as_bytes();
    if let [b'0', letter, ..] = bytes {
        let radix = match letter.to_ascii_lowercase() {
            b'b' => Some(2),
            b'o' => Some(8),
            b'x' => Some(16),
            _ => None,
        };
        let len = radix.map_or(0, |radix| digits(&bytes[2..], |byte| char::from(byte).is_digit(radix)));
        if let (Some(radix), 1..) = (radix, len) {
            return int(&text[2..2 + len], radix).map(|kind| (kind, 2 + len));
        }
    }
    let decimal = |from: usize| digits(&bytes[from.min(bytes.len())..], |byte| byte.is_ascii_digit());
    let whole = decimal(0);
    let mut len = whole;
    if !after_dot {
        if bytes.get(len) == Some(&b'.') && decimal(len + 1) > 0 {
            len += 1 + decimal(len + 1);
        }
        if matches!(bytes.get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
            if decimal(len + 1 + sign) > 0 {
                len += 1 + sign + decimal(len + 1 + sign);
            }
        }
    }
    if len == whole {
        return int(&text[..len], 10).map(|kind| (kind, len));
    }
    match text[..len].replace('_', "").parse() {
        Ok(value) => Ok((Kind::Float(value), len)),
        Err(_) => fail!("`{}` is no number", &text[..len.min(50)]),
    }
}

fn int(text: &str, radix: u32) -> Result<Kind> {
    let digits = text.replace('_', "");
    i128::from_str_radix(&digits, radix).map(Kind::Int).map_err(|_| Error::new("an integer is too large"))
}

/// The length of a run of digits with single underscores between them.
fn digits(bytes: &[u8], is_digit: impl Fn(u8) -> bool) -> usize {
    let mut len = 0;
    while len < bytes.len() {
        if is_digit(bytes[len]) {
            len += 1;
        } else if bytes[len] == b'_' && len > 0 && bytes.get(len + 1).is_some_and(|byte| is_digit(*byte)) {
            len += 2;
        } else {
            break;
        }
    }
    len
}

/// Parses the string literal at the start of a text; returns it with the length of the literal.
pub(super) fn string(text: &str) -> Result<(String, usize)> {
    let mut chars = text.char_indices();
    let quote = chars.next().map(|(_, quote)| quote);
    let mut value = String::new();
    while let Some((at, c)) = chars.next() {
        if Some(c) == quote {
            return Ok((value, at + c.len_utf8()));
        }
        if c != '\\' {
            value.push(c);
            continue;
        }
        let Some((at, escaped)) = chars.next() else { break };
        let hex = match escaped {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        match escaped {
            '\n' => {}
            '\\' | '\'' | '"' => value.push(escaped),
            'a' => value.push('\x07'),
            'b' => value.push('\x08'),
            'f' => value.push('\x0c'),
            'n' => value.push('\n'),
            'r' => value.push('\r'),
            't' => value.push('\t'),
            'v' => value.push('\x0b'),
            'x' | 'u' | 'U' => {
                let code = text.get(at + 1..at + 1 + hex).and_then(|digits| u32::from_str_radix(digits, 16).ok());
                match code.and_then(char::from_u32) {
                    Some(c) => value.push(c),
                    None => return fail!("`\\{escaped}` in a string is no character"),
                }
                chars.nth(hex - 1);
            }
            '0'..='7' => {
                let len = text[at..].bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                let code = u32::from_str_radix(&text[at..at + len], 8).ok();
                value.extend(code.and_then(char::from_u32));
                if len > 1 {
                    chars.nth(len - 2);
                }
            }
            'N' => return fail!("names of characters in strings are not supported"),
            _ => value.extend(['\\', escaped]),
        }
    }
    fail!("a string has no end")
}
