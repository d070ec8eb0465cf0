//! A JSONL file that is appended line by line and survives a kill.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::atomic::create_parent;
use crate::error::{Error, Result};
use crate::identity::check_in_place;
use crate::in_place::open_in_place;
use crate::lock::lock_file;
use crate::row::Layout;
use crate::rows::{ChunkReader, RowReader};

/// Appends values to a JSONL file. Each line is written to the operating system before [`JsonlAppender::append`] returns.
///
/// The file is locked until the appender is dropped or the process ends, so two runs cannot append to one file. Links are refused,
/// since another file would be modified.
#[derive(Debug)]
pub struct JsonlAppender<T> {
    path: PathBuf,
    file: File,
    kind: PhantomData<fn(T)>,
}

impl<T: Serialize> JsonlAppender<T> {
    /// Creates an empty file or truncates an existing one. Creates missing folders.
    ///
    /// # Errors
    /// The file cannot be created, or another run appends to it.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let io = Error::io(path);
        create_parent(path).map_err(io)?;
        // Truncated only after it is locked: another run may be writing to it.
        let file = open_in_place(path, File::options().write(true).create(true).truncate(false)).map_err(io)?;
        lock_file(&file, path)?;
        if file.metadata().map_err(io)?.is_file() {
            file.set_len(0).map_err(io)?;
        }
        Ok(Self { path: path.to_owned(), file, kind: PhantomData })
    }

    /// Opens a file that an earlier run may have left. Drops a torn last line and returns the complete ones.
    ///
    /// # Errors
    /// The file cannot be read or written, another run appends to it, or a complete line is not a `T`.
    pub fn resume(path: impl AsRef<Path>) -> Result<(Self, Vec<T>)>
    where
        T: DeserializeOwned,
    {
        let path = path.as_ref();
        if !path.exists() {
            return Ok((Self::create(path)?, Vec::new()));
        }
        let io = Error::io(path);
        regular(path)?;
        let mut file = open_in_place(path, File::options().read(true).write(true)).map_err(io)?;
        lock_file(&file, path)?;
        let complete = complete_length(&file).map_err(io)?;
        // Parsed before truncation, so that a file of another kind stays unchanged.
        file.rewind().map_err(io)?;
        let rows = rows(path, file.try_clone().map_err(io)?, complete)?;
        file.set_len(complete).and_then(|()| file.seek(SeekFrom::End(0))).map_err(io)?;
        Ok((Self { path: path.to_owned(), file, kind: PhantomData }, rows))
    }

    /// Opens a file of an earlier run and truncates it to `length` bytes. Creates it if it is missing.
    ///
    /// # Errors
    /// The file cannot be written, another run appends to it, or it is shorter.
    pub fn reopen(path: impl AsRef<Path>, length: u64) -> Result<Self> {
        let path = path.as_ref();
        if length == 0 {
            return Self::create(path);
        }
        let io = Error::io(path);
        regular(path)?;
        let mut file = open_in_place(path, File::options().write(true)).map_err(io)?;
        lock_file(&file, path)?;
        let found = file.metadata().map_err(io)?.len();
        if found < length {
            let reason = format!("it has {found} bytes, fewer than the {length} that were recorded");
            return Err(Error::Io {
                path: path.to_owned(),
                source: io::Error::new(io::ErrorKind::InvalidData, reason),
            });
        }
        file.set_len(length).and_then(|()| file.seek(SeekFrom::End(0))).map_err(io)?;
        Ok(Self { path: path.to_owned(), file, kind: PhantomData })
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn length(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(Error::io(&self.path))?.len())
    }

    /// Appends one line.
    ///
    /// # Errors
    /// The line cannot be written. Earlier lines are kept.
    pub fn append(&mut self, value: &T) -> Result<()> {
        let io = |source| Error::Io { path: self.path.clone(), source };
        let mut line = serde_json::to_vec(value).map_err(|e| io(e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(io)
    }

    /// Flushes the file to disk.
    ///
    /// # Errors
    /// The disk reports a failure, or the file is not at its path any more ([`Error::Removed`]).
    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|source| Error::Io { path: self.path.clone(), source })?;
        check_in_place(&self.file, &self.path)
    }
}

/// Reads the complete lines of a JSONL file that another process may be appending to. Skips a torn last line and takes
/// no lock.
///
/// # Errors
/// The file cannot be read, or a complete line is not a `T`.
pub fn read_complete_lines<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<Vec<T>> {
    let path = path.as_ref();
    let io = Error::io(path);
    regular(path)?;
    let mut file = File::open(path).map_err(io)?;
    let complete = complete_length(&file).map_err(io)?;
    file.rewind().map_err(io)?;
    rows(path, file, complete)
}

/// Fails if a path is not a regular file: opening a pipe could wait for ever, and the lines of a device never end.
fn regular(path: &Path) -> Result<()> {
    let found = std::fs::metadata(path).map_err(Error::io(path))?;
    let kind = if found.is_dir() { io::ErrorKind::IsADirectory } else { io::ErrorKind::InvalidInput };
    let refused = io::Error::new(kind, "this is not a regular file, which a file that grows has to be");
    if found.is_file() { Ok(()) } else { Err(Error::Io { path: path.to_owned(), source: refused }) }
}

/// The rows in the first `length` bytes.
fn rows<T: DeserializeOwned>(path: &Path, file: File, length: u64) -> Result<Vec<T>> {
    let lines = file.take(length);
    RowReader::new(ChunkReader::with_layout(path, lines, Layout::Lines))
        .map(|row| row.map(|(_, value)| value))
        .collect()
}

/// Length in bytes up to and including the last newline. A line is complete once its newline is written.
fn complete_length(file: &File) -> io::Result<u64> {
    let (mut input, mut read, mut whole) = (BufReader::with_capacity(1 << 16, file), 0, 0);
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(whole);
        }
        if let Some(at) = buffer.iter().rposition(|byte| *byte == b'\n') {
            whole = read + at as u64 + 1;
        }
        let length = buffer.len();
        read += length as u64;
        input.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Classify, ErrorClass};

    #[test]
    fn reopened_files_keep_what_was_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let mut file = JsonlAppender::<u32>::reopen(&path, 0).unwrap();
        file.append(&1).unwrap();
        let recorded = file.length().unwrap();
        file.append(&2).unwrap();
        drop(file);
        JsonlAppender::<u32>::reopen(&path, recorded).unwrap().append(&3).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n3\n");
        let error = JsonlAppender::<u32>::reopen(&path, 99).unwrap_err().to_string();
        assert!(error.contains("4 bytes, fewer than the 99"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n3\n");
    }

    #[test]
    fn only_regular_files_are_resumed_and_read() {
        let folder = tempfile::tempdir().unwrap();
        for path in [Path::new("/dev/zero"), Path::new("/dev/full"), folder.path()] {
            let resumed = JsonlAppender::<u32>::resume(path).map(|_| ()).unwrap_err();
            let read = read_complete_lines::<u32>(path).unwrap_err();
            for error in [resumed, read] {
                assert!(error.to_string().contains("not a regular file"), "{error}");
                assert_eq!(error.class(), ErrorClass::BadInput);
            }
        }
    }
}
