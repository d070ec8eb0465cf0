//! Reads small files completely.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::error::{Error, Result};
use crate::foreign::foreign_small;

/// Reads a file of at most `limit` bytes.
///
/// Only regular files are read: a pipe could block forever, and a device is endless.
///
/// # Errors
/// The file cannot be read, is not a regular file, is larger, or is compressed, UTF-16 or a pointer of Git LFS.
pub fn read_whole(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
    let path = path.as_ref();
    read(path, limit).map_err(Error::io(path))
}

fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let found = fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "this is a folder; a file was expected"));
    }
    if !found.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "this is not a regular file"));
    }
    let bytes = read_file(File::open(path)?, limit)?;
    match foreign_small(&bytes) {
        Some(what) => Err(io::Error::new(ErrorKind::InvalidData, what)),
        None => Ok(bytes),
    }
}

/// Reads an open regular file of at most `limit` bytes.
pub(crate) fn read_file(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let too_large = || {
        let found = format!("it has more than {limit} bytes, the most that such a file may have");
        io::Error::new(ErrorKind::InvalidData, found)
    };
    if file.metadata()?.len() > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // The file may have grown since.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Classify, ErrorClass};

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read_whole(&path, 5).unwrap(), b"12345");
        for (path, limit, reason) in [
            (path.as_path(), 4, "more than 4 bytes"),
            (folder.path(), 9, "this is a folder"),
            (Path::new("/dev/zero"), 9, "not a regular file"),
        ] {
            let error = read_whole(path, limit).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            assert_eq!(error.class(), ErrorClass::BadInput);
        }
    }
}
