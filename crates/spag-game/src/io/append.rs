//! A JSONL file that grows line by line and survives a kill.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::rows::RowReader;
use crate::error::{Error, Result};

/// Appends values to a JSONL file; every line reaches the operating system before the call returns.
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
    /// The file cannot be created.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let open = || {
            if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
                std::fs::create_dir_all(dir)?;
            }
            File::create(&path)
        };
        let file = open().map_err(|source| Error::Io { path: path.clone(), source })?;
        Ok(Self { path, file, kind: PhantomData })
    }

    /// Goes on with a file that an earlier run may have left: drops a torn last line and returns the whole ones.
    ///
    /// # Errors
    /// The file cannot be read or written, or a whole line of it is not a `T`.
    pub fn resume(path: impl AsRef<Path>) -> Result<(Self, Vec<T>)>
    where
        T: DeserializeOwned,
    {
        let path = path.as_ref().to_owned();
        if !path.exists() {
            return Ok((Self::create(&path)?, Vec::new()));
        }
        let io = |source| Error::Io { path: path.clone(), source };
        let bytes = std::fs::read(&path).map_err(io)?;
        // A line is whole once its newline is written.
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let mut file = OpenOptions::new().write(true).open(&path).map_err(io)?;
        file.set_len(whole as u64).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        let kept = std::io::Cursor::new(bytes[..whole].to_vec());
        let rows =
            RowReader::from_reader(&path, kept)?.map(|row| row.map(|(_, value)| value)).collect::<Result<_>>()?;
        Ok((Self { path, file, kind: PhantomData }, rows))
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
