//! Mutations of bytes and of JSON.

use proptest::prelude::*;
use serde_json::Value;

/// Numbers at the edges of types, as they are written in files.
const NUMBERS: [&str; 20] = [
    "0",
    "-1",
    "1",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e3",
    "1e18",
    "1e39",
    "1e308",
    "1e999",
    "-1e308",
    "1e-320",
    "NaN",
    "Infinity",
];

/// Texts that break what takes them for granted.
const TEXTS: [&str; 14] = [
    "",
    "\u{1b}]0;x\u{7}",
    "a\nb",
    "\u{202e}",
    "\0",
    "../../x",
    "/dev/zero",
    "null",
    "[",
    "{\"a\":",
    "\\ud800",
    "\u{301}",
    "🐎",
    "<s>",
];

/// One change of an input; positions are fractions of its length.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mutation {
    Flip {
        at: u16,
        bit: u8,
    },
    Cut {
        at: u16,
        length: u16,
    },
    Keep {
        length: u16,
    },
    Insert {
        at: u16,
        byte: u8,
        times: u8,
    },
    Repeat {
        at: u16,
        length: u8,
        times: u8,
    },
    Text {
        at: u16,
        which: u8,
        times: u16,
    },
    /// Replaces the number at or after a position.
    Number {
        at: u16,
        which: u8,
    },
    /// Replaces a value of a JSON input, by its place among all values of the first megabyte.
    JsonNumber {
        place: u16,
        which: u8,
    },
    JsonText {
        place: u16,
        which: u8,
        times: u8,
    },
    JsonKind {
        place: u16,
        which: u8,
    },
    JsonRemove {
        place: u16,
    },
    JsonNest {
        place: u16,
        depth: u16,
    },
    /// Another header length of a safetensors file.
    Length {
        value: u64,
    },
}

/// Any mutation.
pub(crate) fn mutation() -> impl Strategy<Value = Mutation> {
    (0..13_u8, any::<u16>(), any::<u16>(), any::<u8>(), any::<u64>()).prop_map(|(kind, at, size, which, value)| {
        let times = size.to_le_bytes()[0];
        match kind {
            0 => Mutation::Flip { at, bit: which },
            1 => Mutation::Cut { at, length: size },
            2 => Mutation::Keep { length: at },
            3 => Mutation::Insert { at, byte: which, times },
            4 => Mutation::Repeat { at, length: which, times },
            5 => Mutation::Text { at, which, times: size },
            6 => Mutation::Number { at, which },
            7 => Mutation::JsonNumber { place: at, which },
            8 => Mutation::JsonText { place: at, which, times },
            9 => Mutation::JsonKind { place: at, which },
            10 => Mutation::JsonRemove { place: at },
            11 => Mutation::JsonNest { place: at, depth: size },
            _ => Mutation::Length { value },
        }
    })
}

/// The input with all mutations, one after the other.
pub(crate) fn apply(seed: &[u8], mutations: &[Mutation]) -> Vec<u8> {
    mutations.iter().fold(seed.to_vec(), |bytes, mutation| mutation.apply(bytes))
}

/// The index at a fraction of a length.
fn index(at: u16, length: usize) -> usize {
    usize::from(at) * length / (usize::from(u16::MAX) + 1)
}

fn insert(mut bytes: Vec<u8>, at: u16, new: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let at = index(at, bytes.len() + 1);
    bytes.splice(at..at, new);
    bytes
}

impl Mutation {
    fn apply(self, mut bytes: Vec<u8>) -> Vec<u8> {
        let length = bytes.len();
        match self {
            Self::Flip { at, bit } => {
                if let Some(byte) = bytes.get_mut(index(at, length)) {
                    *byte ^= 1 << (bit % 8);
                }
                bytes
            }
            Self::Cut { at, length: cut } => {
                let start = index(at, length + 1);
                bytes.drain(start..length.min(start + usize::from(cut % 512)));
                bytes
            }
            Self::Keep { length: kept } => {
                bytes.truncate(index(kept, length + 1));
                bytes
            }
            Self::Insert { at, byte, times } => insert(bytes, at, std::iter::repeat_n(byte, times.into())),
            Self::Repeat { at, length: part, times } => {
                let start = index(at, length + 1);
                let part = bytes[start..length.min(start + usize::from(part))].to_vec();
                insert(bytes, at, part.repeat(times.into()))
            }
            Self::Text { at, which, times } => {
                let text = TEXTS[usize::from(which) % TEXTS.len()].repeat(usize::from(times % 2048));
                insert(bytes, at, text.into_bytes())
            }
            Self::Number { at, which } => {
                let from = index(at, length + 1);
                let digit = |byte: &u8| byte.is_ascii_digit();
                let Some(start) = bytes[from..].iter().position(digit).map(|found| from + found) else { return bytes };
                let end = bytes[start..].iter().position(|byte| !digit(byte)).map_or(length, |found| start + found);
                bytes.splice(start..end, NUMBERS[usize::from(which) % NUMBERS.len()].bytes());
                bytes
            }
            Self::Length { value } => {
                if let Some(header) = bytes.first_chunk_mut() {
                    *header = value.to_le_bytes();
                }
                bytes
            }
            Self::JsonNumber { place, which } => {
                let raw = NUMBERS[usize::from(which) % NUMBERS.len()];
                change_json(bytes, place, |_| raw.to_owned())
            }
            Self::JsonText { place, which, times } => {
                let text = TEXTS[usize::from(which) % TEXTS.len()].repeat(usize::from(times));
                change_json(bytes, place, |_| Value::String(text).to_string())
            }
            Self::JsonKind { place, which } => {
                let kinds = ["null", "true", "[]", "{}", "[[]]", "{\"a\": 1}", "3", "\"x\"", "-1.5"];
                change_json(bytes, place, |_| kinds[usize::from(which) % kinds.len()].to_owned())
            }
            Self::JsonRemove { place } => change_json(bytes, place, |_| String::new()),
            Self::JsonNest { place, depth } => {
                let depth = usize::from(depth % 4096);
                change_json(bytes, place, |old| format!("{}{old}{}", "[".repeat(depth), "]".repeat(depth)))
            }
        }
    }
}

/// Replaces the text of one JSON value. Works on the text, so that invalid JSON and the other bytes stay as they are: a
/// value starts after a colon, a comma or a bracket, and ends where its brackets close or before the next comma.
fn change_json(mut bytes: Vec<u8>, place: u16, change: impl FnOnce(&str) -> String) -> Vec<u8> {
    let starts = |(at, byte): (usize, &u8)| matches!(byte, b':' | b',' | b'[').then_some(at + 1);
    let places: Vec<usize> = bytes.iter().take(1 << 20).enumerate().filter_map(starts).collect();
    let Some(&start) = places.get(index(place, places.len())) else { return bytes };
    let (mut depth, mut quoted, mut end) = (0_i32, false, bytes.len());
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' | b',' if depth == 0 => {
                end = at;
                break;
            }
            b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    let new = change(&String::from_utf8_lossy(&bytes[start..end]));
    bytes.splice(start..end, new.into_bytes());
    bytes
}
