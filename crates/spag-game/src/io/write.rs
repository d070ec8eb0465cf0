//! Files written beside their place, synced and renamed: a kill leaves the old file or the new one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};

/// A file that appears in its place only once it is whole, and until then leaves what was there.
///
/// Dropped without [`AtomicFile::commit`], it leaves nothing behind. A link stays a link: what it points to is replaced.
/// What is there and is no plain file (`/dev/stdout`, a named pipe) is written to directly.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    /// The name until then; `None` once renamed, and for what is written to directly.
    temporary: Option<PathBuf>,
}

impl AtomicFile {
    /// Begins a file that will be `path`. Missing folders are made.
    ///
    /// # Errors
    /// The folder cannot be written, or `path` is a folder.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })
    }

    fn open(path: &Path) -> io::Result<Self> {
        let there = fs::metadata(path);
        if there.as_ref().is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            let file = BufWriter::new(File::options().write(true).open(path)?);
            return Ok(Self { path: path.to_owned(), file: Some(file), temporary: None });
        }
        create_parent(path)?;
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let Some(name) = path.file_name().filter(|_| !there.is_ok_and(|there| there.is_dir())) else {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "this is a folder; a file's name is needed"));
        };
        let mut beside = OsString::from(".");
        beside.push(name);
        beside.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(beside);
        let file = BufWriter::with_capacity(1 << 18, File::create(&temporary)?);
        Ok(Self { path, file: Some(file), temporary: Some(temporary) })
    }

    /// Syncs the file and renames it to its place.
    ///
    /// # Errors
    /// The disk is full or the folder cannot be written; what was there stays.
    pub fn commit(mut self) -> Result<()> {
        self.finish().map_err(|source| Error::Io { path: self.path.clone(), source })
    }

    fn finish(&mut self) -> io::Result<()> {
        let Some(writer) = self.file.take() else { return Ok(()) };
        let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        let Some(temporary) = &self.temporary else { return Ok(()) };
        file.sync_all()?;
        fs::rename(temporary, &self.path)?;
        self.temporary = None;
        sync_folder(&self.path);
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            // Not committed, or the rename failed: nothing half-written stays behind. There is nobody to tell.
            drop(self.file.take());
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Makes the folder that a file is to lie in.
pub(super) fn create_parent(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => fs::create_dir_all(folder),
        None => Ok(()),
    }
}

/// Makes the new name last through a power cut, where the system can sync a folder: the file is whole either way.
fn sync_folder(path: &Path) {
    if let Some(folder) = path.parent() {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
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
        .map_err(io::Error::from)
        .and_then(|()| file.write_all(b"\n"))
        .map_err(|source| Error::Io { path: path.to_owned(), source })?;
    file.commit()
}
