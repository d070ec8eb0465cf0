//! Atomic file writes: a temporary file in the same folder, synced and renamed. A kill leaves either the old or the
//! new file.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{Error, Result};
use crate::in_place::is_stream;
use crate::row::cause;
use crate::temporary;
use crate::whole::read_whole;

/// A file that replaces the one at its path only when it is complete.
/// If it is dropped without [`AtomicFile::commit`], it leaves nothing behind. Leftovers of a killed process are deleted by
/// the next process that writes the file. A symbolic link is replaced, and its target is kept. A path that is not a regular
/// file (`/dev/stdout`, a named pipe) is written to directly.
/// file (`/dev/stdout`, a named pipe) is written to directly.
#[derive(Debug)]
pub struct AtomicFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    /// The temporary name; `None` after the rename, and if the path is written to directly.
    temporary: Option<PathBuf>,
}

impl AtomicFile {
    /// Starts a file that will be renamed to `path`. Creates missing folders.
    ///
    /// # Errors
    /// The folder cannot be written, or `path` is a folder.
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::open(path).map_err(Error::io(path))
    }

    fn open(path: &Path) -> io::Result<Self> {
        if is_stream(path) {
            let file = BufWriter::new(open_stream(path)?);
            return Ok(Self { path: path.to_owned(), file: Some(file), temporary: None });
        }
        create_parent(path)?;
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "this is a folder; a file's name is needed"));
        };
        temporary::remove_leftovers(path, name);
        let (file, temporary) = temporary::create(path, name)?;
        let file = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { path: path.to_owned(), file: Some(file), temporary: Some(temporary) })
    }

    /// Syncs the file and renames it to its path.
    ///
    /// # Errors
    /// The disk is full or the folder cannot be written, and the previous file is kept; or the folder was removed
    /// ([`Error::Removed`]).
    pub fn commit(mut self) -> Result<()> {
        self.finish().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::Removed { path: self.path.clone() },
            _ => Error::Io { path: self.path.clone(), source },
        })
    }

    fn finish(&mut self) -> io::Result<()> {
        let Some(writer) = self.file.take() else { return Ok(()) };
        let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        let Some(temporary) = &self.temporary else { return Ok(()) };
        file.sync_all()?;
        fs::rename(temporary, &self.path)?;
        self.temporary = None;
        // Best effort: some file systems cannot sync a folder, and the file is complete either way.
        let _ = self.path.parent().map(sync_folder);
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
            // Not committed, or the rename failed. Best effort: drop cannot report an error.
            drop(self.file.take());
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Opens a pipe, a device or an already open file without truncating it.
fn open_stream(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    if [Path::new("/dev/stdout"), Path::new("/dev/fd/1"), Path::new("/proc/self/fd/1")].contains(&path) {
        use std::os::fd::AsFd;
        // Duplicated, since standard output may be a file with a shared position.
        return Ok(io::stdout().as_fd().try_clone_to_owned()?.into());
    }
    File::options().append(true).open(path)
}

/// Creates the folder of a file.
pub(crate) fn create_parent(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => fs::create_dir_all(folder),
        None => Ok(()),
    }
}

/// Syncs a folder, so that renames in it survive a power failure.
///
/// # Errors
/// The folder cannot be opened or synced.
pub fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::io(folder))
}

/// Writes a value as indented JSON in the format of the reference (`indent=2`, non-ASCII letters unescaped).
///
/// # Errors
/// The file cannot be written. The previous file is kept.
pub fn write_json_atomically(path: impl AsRef<Path>, value: &(impl Serialize + ?Sized)) -> Result<()> {
    let path = path.as_ref();
    let mut file = AtomicFile::create(path)?;
    serde_json::to_writer_pretty(&mut file, value)
        .map_err(io::Error::from)
        .and_then(|()| file.write_all(b"\n"))
        .map_err(Error::io(path))?;
    file.commit()
}

/// Writes bytes to a file through an [`AtomicFile`].
///
/// # Errors
/// The file cannot be written. The previous file is kept.
pub fn write_atomically(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
    let path = path.as_ref();
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes.as_ref()).map_err(Error::io(path))?;
    file.commit()
}

/// Writes one line of JSON per row through an [`AtomicFile`].
///
/// # Errors
/// The file cannot be written. The previous file is kept.
pub fn write_jsonl_atomically(path: impl AsRef<Path>, rows: &[impl Serialize]) -> Result<()> {
    let path = path.as_ref();
    let mut file = AtomicFile::create(path)?;
    for row in rows {
        let written = serde_json::to_writer(&mut file, row).map_err(io::Error::from);
        written.and_then(|()| file.write_all(b"\n")).map_err(Error::io(path))?;
    }
    file.commit()
}

/// Reads a JSON file that holds one value, of at most 1 GiB; `None` if there is no such file.
///
/// # Errors
/// The file cannot be read, is not a regular file, is larger, or is not a `T`.
pub fn read_json<T: serde::de::DeserializeOwned>(path: impl AsRef<Path>) -> Result<Option<T>> {
    let path = path.as_ref();
    let bytes = match read_whole(path, 1 << 30) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let value = serde_json::from_slice(&bytes);
    value.map(Some).map_err(|error| Error::Json { path: path.to_owned(), reason: cause::<T>(&bytes, "file", &error) })
}
