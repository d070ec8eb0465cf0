//! Small text files.

use std::io::{self, ErrorKind};
use std::path::Path;

use crate::error::{Error, Result};
use crate::foreign::foreign_text;
use crate::whole::read_whole;

/// Reads a regular file of at most `limit` bytes that must be UTF-8.
///
/// # Errors
/// As [`read_whole`], or the file is not UTF-8; the error names the line.
pub fn read_text(path: impl AsRef<Path>, limit: u64) -> Result<String> {
    let path = path.as_ref();
    let bytes = read_whole(path, limit)?;
    if let Some(what) = foreign_text(&bytes) {
        return Err(Error::io(path)(io::Error::new(ErrorKind::InvalidData, what)));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        let message = format!("line {line} is not UTF-8; save the file as UTF-8");
        Error::io(path)(io::Error::new(ErrorKind::InvalidData, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_encodings_and_larger_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        std::fs::write(&path, "a\nb").unwrap();
        assert_eq!(read_text(&path, 3).unwrap(), "a\nb");
        assert!(read_text(&path, 2).is_err());
        std::fs::write(&path, b"a\nb\xff").unwrap();
        let said = read_text(&path, 10).unwrap_err().to_string();
        assert!(said.contains("a.toml: line 2 is not UTF-8"), "{said}");
    }
}
