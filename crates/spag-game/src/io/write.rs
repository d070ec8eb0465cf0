//! Files written beside their place, synced and renamed: a kill leaves the old file or the new one.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};

/// A file that appears in its place only once it is whole.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    temporary: PathBuf,
    file: Option<BufWriter<File>>,
}

impl AtomicFile {
    /// Begins a file that will be `path`. Missing folders are made.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let mut name = std::ffi::OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(".tmp");
        let temporary = path.with_file_name(name);
        let open = || {
            if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
                std::fs::create_dir_all(dir)?;
            }
            File::create(&temporary)
        };
        let file = open().map_err(|source| Error::Io { path: path.clone(), source })?;
        Ok(Self { path, temporary, file: Some(BufWriter::new(file)) })
    }

    /// Syncs the file and renames it to its place.
    ///
    /// # Errors
    /// The disk is full or the folder cannot be written; what was there stays.
    pub fn commit(mut self) -> Result<()> {
        let finish = |file: Option<BufWriter<File>>| {
            if let Some(file) = file {
                file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
            }
            std::fs::rename(&self.temporary, &self.path)
        };
        finish(self.file.take()).map_err(|source| Error::Io { path: self.path.clone(), source })
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        // Not committed, or the rename failed: nothing half-written stays behind. There is nobody to tell.
        drop(self.file.take());
        let _ = std::fs::remove_file(&self.temporary);
    }
}

/// Writes a value as indented JSON, as the reference does (`indent=2`, no escapes for letters).
///
/// # Errors
/// The file cannot be written; what was there stays.
pub fn write_json_atomically(path: impl AsRef<Path>, value: &(impl Serialize + ?Sized)) -> Result<()> {
    let path = path.as_ref();
    let mut file = AtomicFile::create(path)?;
    serde_json::to_writer_pretty(&mut file, value)
        .map_err(std::io::Error::from)
        .and_then(|()| file.write_all(b"\n"))
        .map_err(|source| Error::Io { path: path.to_owned(), source })?;
    file.commit()
}
