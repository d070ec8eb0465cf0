//! Locks of files: the operating system holds them for a living process alone, however that process ends.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::write::create_parent;
use crate::error::{Error, Result};

/// Keeps others waiting who want the same lock, until it is dropped or the process ends.
#[derive(Debug)]
pub struct FileLock {
    /// Holds the lock as long as it is open.
    _file: File,
}

impl FileLock {
    /// Waits for the lock of the file at `path`, which is made where there is none. It stays there empty: one that is
    /// removed would let two processes hold two locks of one name.
    ///
    /// # Errors
    /// The file cannot be opened, or the system fails to lock it. Where files cannot be locked at all, there is no
    /// waiting and no error.
    pub fn wait(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let io = |source| Error::Io { path: path.to_owned(), source };
        create_parent(path).map_err(io)?;
        let file = File::options().write(true).create(true).truncate(false).open(path).map_err(io)?;
        match file.lock() {
            Err(error) if error.kind() != ErrorKind::Unsupported => Err(io(error)),
            _ => Ok(Self { _file: file }),
        }
    }

    /// Whether somebody holds the lock of the file at `path`; nobody does where there is no such file.
    ///
    /// It is found out by taking the lock for a moment, together with others who only ask. Somebody who wants it for
    /// good at that very moment is told that it is taken; so whoever asks and whoever takes it hold a [`FileLock`] of
    /// another file meanwhile.
    ///
    /// # Errors
    /// The file cannot be opened, or the system fails to lock it.
    pub fn is_taken(path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        let io = |source| Error::Io { path: path.to_owned(), source };
        let file = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(io)?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(false),
            Err(TryLockError::Error(source)) => Err(io(source)),
        }
    }
}

/// Takes the lock of an open file for its one writer.
pub(super) fn take(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { path: path.to_owned() }),
        // Some network file systems, and things that are no files, know no locks; there is nothing to be had there.
        Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(source)) => Err(Error::Io { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::JsonlAppender;

    #[test]
    fn who_writes_is_seen_and_not_disturbed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.jsonl");
        assert!(!FileLock::is_taken(&path).unwrap());
        let mut lines = JsonlAppender::<u32>::create(&path).unwrap();
        assert!(FileLock::is_taken(&path).unwrap());
        lines.append(&1).unwrap();
        drop(lines);
        assert!(!FileLock::is_taken(&path).unwrap());
    }

    #[test]
    fn the_second_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/run.lock");
        let first = FileLock::wait(&path).unwrap();
        let (said, heard) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let second = FileLock::wait(&path).unwrap();
                said.send(()).unwrap();
                drop(second);
            });
            let wait = std::time::Duration::from_millis(50);
            assert!(heard.recv_timeout(wait).is_err(), "the first still holds it");
            drop(first);
            heard.recv().unwrap();
        });
    }
}
