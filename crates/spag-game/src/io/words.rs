//! Lists of target words: UTF-8, one a line.

use std::collections::HashMap;
use std::path::Path;

use crate::error::{Error, Result};

/// Longest word in characters; a longer line is surely not a word.
const LONGEST: usize = 200;

/// Reads a list of target words.
///
/// # Errors
/// A file that cannot be read or is not UTF-8, an empty, overlong or repeated word: the error names the line.
pub fn read_words(path: impl AsRef<Path>) -> Result<Vec<String>> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(spag_io::Error::io(path))?;
    parse_words(path, &bytes)
}

/// Parses a list of target words; `path` is what errors name.
///
/// # Errors
/// As [`read_words`].
pub fn parse_words(path: &Path, bytes: &[u8]) -> Result<Vec<String>> {
    let fail = |line: usize, reason: String| Err(Error::Line { path: path.to_owned(), line, reason });
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
            return fail(line, "this line is not UTF-8; save the file as UTF-8".into());
        }
    };
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut words = Vec::new();
    // Blank lines at the end are nobody's mistake.
    for (index, line) in text.trim_end().lines().enumerate() {
        let word = line.trim();
        if word.is_empty() {
            return fail(index + 1, "this line is empty; every line holds one target word".into());
        }
        if word.chars().count() > LONGEST {
            return fail(index + 1, format!("this line has more than {LONGEST} characters; every line holds one word"));
        }
        if let Some(first) = seen.insert(word, index + 1) {
            return fail(index + 1, format!("{word:?} stands on line {first} already; remove one of the two"));
        }
        words.push(word.to_owned());
    }
    match words.is_empty() {
        true => fail(1, "the file holds no words".into()),
        false => Ok(words),
    }
}
