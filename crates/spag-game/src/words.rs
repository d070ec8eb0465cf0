//! Lists of target words: UTF-8, one word a line.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};

/// The most characters of a word.
const MAX_LENGTH: usize = 200;

/// The most bytes of a list.
const MAX_BYTES: u64 = 1 << 26;

/// Reads a list of target words.
///
/// # Errors
/// The file cannot be read or is not UTF-8, or a word is empty, too long, repeated, or has control characters.
/// The error names the line.
pub fn read_words(path: impl AsRef<Path>) -> Result<Vec<String>> {
    let path = path.as_ref();
    let mut bytes = Vec::new();
    // Not only regular files: a shell may pass a pipe. The limit is for devices that never end.
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(spag_io::Error::io(path))?;
    if bytes.len() as u64 > MAX_BYTES {
        let reason = format!("the file has more than {MAX_BYTES} bytes, the most of a word list");
        return Err(Error::Line { path: path.to_owned(), line: 1, reason });
    }
    parse_words(&bytes).map_err(|(line, reason)| Error::Line { path: path.to_owned(), line, reason })
}

/// The words, or the 1-based line of the first error and its reason.
fn parse_words(bytes: &[u8]) -> std::result::Result<Vec<String>, (usize, String)> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
        (line, "this line is not UTF-8; save the file as UTF-8".to_owned())
    })?;
    let mut lines: HashMap<&str, usize> = HashMap::new();
    let mut words = Vec::new();
    for (line, word) in (1..).zip(text.trim_end().lines().map(str::trim)) {
        if word.is_empty() {
            return Err((line, "this line is empty; every line holds one target word".to_owned()));
        }
        if word.chars().count() > MAX_LENGTH {
            return Err((line, format!("this line has more than {MAX_LENGTH} characters; every line holds one word")));
        }
        if word.contains(char::is_control) {
            let word = spag_io::quote(word);
            return Err((line, format!("`{word}` has a control character; every line holds one word")));
        }
        if let Some(first) = lines.insert(word, line) {
            return Err((
                line,
                format!("\"{}\" is on line {first} already; remove one of the two", spag_io::quote(word)),
            ));
        }
        words.push(word.to_owned());
    }
    if words.is_empty() { Err((1, "the file holds no words".to_owned())) } else { Ok(words) }
}
