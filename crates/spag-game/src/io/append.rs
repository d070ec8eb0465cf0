//! A JSONL file that grows line by line and survives a kill.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::layout::Layout;
use super::lock::take;
use super::rows::RowReader;
use super::write::create_parent;
use crate::error::{Error, Result};

/// Appends values to a JSONL file; every line reaches the operating system before the call returns.
///
/// The file is locked until this is dropped or the process ends, however it ends: no two runs append to one file.
#[derive(Debug)]
pub struct JsonlAppender<T> {
    path: PathBuf,
    file: File,
    kind: PhantomData<fn(T)>,
}

impl<T: Serialize> JsonlAppender<T> {
    /// Begins an empty file, replacing one that is there. Missing folders are made.
    ///
    /// # Errors
    /// The file cannot be created, or another run appends to it.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let io = |source| Error::Io { path: path.to_owned(), source };
        create_parent(path).map_err(io)?;
        // Emptied only once it is locked: it may be another run's.
        let file = File::options().write(true).create(true).truncate(false).open(path).map_err(io)?;
        take(&file, path)?;
        if file.metadata().map_err(io)?.is_file() {
            file.set_len(0).map_err(io)?;
        }
        Ok(Self { path: path.to_owned(), file, kind: PhantomData })
    }

    /// Goes on with a file that an earlier run may have left: drops a torn last line and returns the whole ones.
    ///
    /// # Errors
    /// The file cannot be read or written, another run appends to it, or a whole line of it is not a `T`.
    pub fn resume(path: impl AsRef<Path>) -> Result<(Self, Vec<T>)>
    where
        T: DeserializeOwned,
    {
        let path = path.as_ref();
        if !path.exists() {
            return Ok((Self::create(path)?, Vec::new()));
        }
        let io = |source| Error::Io { path: path.to_owned(), source };
        let mut file = File::options().read(true).write(true).open(path).map_err(io)?;
        take(&file, path)?;
        let whole = whole_lines(&file).map_err(io)?;
        // Read before anything is cut off: a file that holds something else stays as it is.
        file.rewind().map_err(io)?;
        let rows = rows(path, file.try_clone().map_err(io)?, whole)?;
        file.set_len(whole).and_then(|()| file.seek(SeekFrom::End(0))).map_err(io)?;
        Ok((Self { path: path.to_owned(), file, kind: PhantomData }, rows))
    }

    /// Appends one line.
    ///
    /// # Errors
    /// The line cannot be written; the lines before it stay.
    pub fn append(&mut self, value: &T) -> Result<()> {
        let io = |source| Error::Io { path: self.path.clone(), source };
        let mut line = serde_json::to_vec(value).map_err(|e| io(e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(io)
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// The disk reports a failure.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|source| Error::Io { path: self.path.clone(), source })
    }
}

/// The whole lines of a file that somebody else may be appending to: a torn last line is left out, and no lock is taken.
pub(crate) fn read_whole_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io)?;
    let whole = whole_lines(&file).map_err(io)?;
    file.rewind().map_err(io)?;
    rows(path, file, whole)
}

/// The rows in the first `length` bytes.
fn rows<T: DeserializeOwned>(path: &Path, file: File, length: u64) -> Result<Vec<T>> {
    let lines = file.take(length);
    RowReader::with_layout(path, lines, Layout::Lines).map(|row| row.map(|(_, value)| value)).collect()
}

/// Bytes up to and with the last newline: a line is whole once its newline is written.
fn whole_lines(file: &File) -> io::Result<u64> {
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
