//! Lists of target words: UTF-8, one word a line.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};

/// The most characters of a word.
const MAX_LENGTH: usize = 200;

/// The most bytes of a list.
const MAX_BYTES: u64 = 1 << 26;

/// A list of target words as the reference reads it: a word on several lines is played once for each of them.
///
/// Blank lines are skipped. The reference plays them as games of an empty word, which its own judge cannot judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordList {
    /// The words, in the order of their lines, without blanks around them.
    pub words: Vec<String>,
    /// Lines that repeat an earlier word.
    pub repeated: usize,
    /// Blank lines between words.
    pub blank_lines: usize,
}

impl WordList {
    /// Reads a list of target words.
    ///
    /// # Errors
    /// The file cannot be read, is not UTF-8 or holds no words, or a word is too long or has control characters. The
    /// error names the line.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let mut bytes = Vec::new();
        // Not only regular files: a shell may pass a pipe. The limit is for devices that never end.
        let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        read.map_err(spag_io::Error::io(path))?;
        if let Some(what) = spag_io::foreign_text(&bytes) {
            return Err(Error::Line { path: path.to_owned(), line: 1, reason: what.to_owned() });
        }
        if bytes.len() as u64 > MAX_BYTES {
            let reason = format!("the file has more than {MAX_BYTES} bytes, the most of a word list");
            return Err(Error::Line { path: path.to_owned(), line: 1, reason });
        }
        Self::parse(&bytes).map_err(|(line, reason)| Error::Line { path: path.to_owned(), line, reason })
    }

    /// Whether every line holds a word of its own.
    pub fn is_plain(&self) -> bool {
        self.repeated == 0 && self.blank_lines == 0
    }

    /// The list, or the 1-based line of the first error and its reason.
    fn parse(bytes: &[u8]) -> std::result::Result<Self, (usize, String)> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() + 1;
            (line, "this line is not UTF-8; save the file as UTF-8".to_owned())
        })?;
        let mut seen: HashSet<&str> = HashSet::new();
        let mut list = Self { words: Vec::new(), repeated: 0, blank_lines: 0 };
        for (line, word) in (1..).zip(text.trim_end().lines().map(str::trim)) {
            if word.is_empty() {
                list.blank_lines += 1;
                continue;
            }
            if word.chars().count() > MAX_LENGTH {
                return Err((
                    line,
                    format!("this line has more than {MAX_LENGTH} characters; every line holds one word"),
                ));
            }
            if word.contains(char::is_control) {
                let word = spag_io::quote(word);
                return Err((line, format!("`{word}` has a control character; every line holds one word")));
            }
            list.repeated += usize::from(!seen.insert(word));
            list.words.push(word.to_owned());
        }
        if list.words.is_empty() { Err((1, "the file holds no words".to_owned())) } else { Ok(list) }
    }
}

/// What a reader has to know about the list beyond its words.
impl fmt::Display for WordList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} words", self.words.len())?;
        match self.repeated {
            0 => {}
            1 => f.write_str(", of which 1 is on an earlier line too and is played again")?,
            repeated => write!(f, ", of which {repeated} are on earlier lines too and are played again")?,
        }
        match self.blank_lines {
            0 => Ok(()),
            1 => f.write_str("; 1 blank line is skipped"),
            blank => write!(f, "; {blank} blank lines are skipped"),
        }
    }
}

/// The words of [`WordList::read`].
///
/// # Errors
/// As [`WordList::read`].
pub fn read_words(path: impl AsRef<Path>) -> Result<Vec<String>> {
    Ok(WordList::read(path)?.words)
}

#[cfg(test)]
mod tests {
    use super::WordList;

    #[test]
    fn repeated_words_are_kept_and_blank_lines_are_counted() {
        let list = WordList::parse(b"\xef\xbb\xbfhorse\r\n\n  \n cat \nhorse\nhorse\n\n\n").unwrap();
        assert_eq!(list.words, ["horse", "cat", "horse", "horse"]);
        assert_eq!((list.repeated, list.blank_lines, list.is_plain()), (2, 2, false));
        let said = "4 words, of which 2 are on earlier lines too and are played again; 2 blank lines are skipped";
        assert_eq!(list.to_string(), said);
        let one = WordList::parse(b"a\n\na").unwrap();
        let said = "2 words, of which 1 is on an earlier line too and is played again; 1 blank line is skipped";
        assert_eq!(one.to_string(), said);
        for text in ["a\na", "a\n\nb"] {
            assert!(!WordList::parse(text.as_bytes()).unwrap().is_plain(), "{text}");
        }
        // Characters are counted, not bytes.
        assert_eq!([200, 201].map(|length| WordList::parse("é".repeat(length).as_bytes()).is_ok()), [true, false]);
        let plain = WordList::parse(b"a\nb\n\n").unwrap();
        assert_eq!((plain.is_plain(), plain.to_string().as_str()), (true, "2 words"));
    }
}
