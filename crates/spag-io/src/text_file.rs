//! Small text files, read with a limit.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::error::{Error, Result};

/// Reads a file of at most `limit` bytes that must be UTF-8, so that a device such as `/dev/zero`, or another file than
/// the one that was meant, does not fill the memory.
///
/// # Errors
/// The file cannot be read, is larger, or is not UTF-8.
pub fn read_text(path: impl AsRef<Path>, limit: u64) -> Result<String> {
    let path = path.as_ref();
    let bytes = read_bytes(path, limit)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        let message = format!("line {line} is not UTF-8; save the file as UTF-8");
        Error::io(path)(io::Error::new(ErrorKind::InvalidData, message))
    })
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// The file cannot be read or is larger.
pub fn read_bytes(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
    let path = path.as_ref();
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(Error::io(path))?;
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(Error::io(path))?;
    if bytes.len() as u64 > limit {
        let message = format!("more than {limit} bytes, the most for a file of this kind");
        return Err(Error::io(path)(io::Error::new(ErrorKind::InvalidData, message)));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_files_and_other_encodings_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read_text(&path, 10).unwrap(), "0123456789");
        let said = read_text(&path, 9).unwrap_err().to_string();
        assert!(said.contains("a.toml: more than 9 bytes"), "{said}");
        std::fs::write(&path, b"a\nb\xff").unwrap();
        let said = read_text(&path, 10).unwrap_err().to_string();
        assert!(said.contains("a.toml: line 2 is not UTF-8"), "{said}");
        assert!(read_bytes("/dev/zero", 1 << 10).is_err());
    }
}
