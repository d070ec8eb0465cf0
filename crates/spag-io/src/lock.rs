//! File locks. The operating system releases them when the process ends.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::atomic::create_parent;
use crate::error::{Error, Result};
use crate::identity::check_in_place;
use crate::in_place::open_in_place;

/// An exclusive lock, held until this is dropped or the process ends.
///
/// On file systems without locks, every call succeeds at once.
#[derive(Debug)]
pub struct FileLock {
    /// Open as long as the lock is held.
    file: File,
    path: PathBuf,
}

impl FileLock {
    /// Waits for the lock of the file at `path`, which is created if missing.
    ///
    /// The file is never deleted: if it were, two processes could lock two files of the same name.
    ///
    /// # Errors
    /// The file cannot be opened or is a link, or the system fails to lock it.
    pub fn wait(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = open(path)?;
        match file.lock() {
            Err(error) if error.kind() != ErrorKind::Unsupported => Err(Error::io(path)(error)),
            _ => Ok(Self { file, path: path.to_owned() }),
        }
    }

    /// Takes the lock of the file at `path`, which is created if missing, and writes the process id into it.
    ///
    /// # Errors
    /// [`Error::InUse`] with the holder's process id if another process holds the lock. The file cannot be opened or is a
    /// link, or the system fails to lock it.
    pub fn try_acquire(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let io = Error::io(path);
        let mut file = open(path)?;
        if let Err(error) = lock_file(&file, path) {
            let mut holder = String::new();
            // The process id only helps the reader; the error is complete without it.
            let _ = file.read_to_string(&mut holder);
            return Err(match error {
                Error::InUse { path, .. } => Error::InUse { path, holder: holder.trim().parse().ok() },
                error => error,
            });
        }
        file.set_len(0).and_then(|()| file.rewind()).map_err(io)?;
        writeln!(file, "{}", std::process::id()).map_err(io)?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Checks that the locked file is still at its path: if its folder was removed, another process can lock a new one.
    ///
    /// # Errors
    /// [`Error::Removed`].
    pub fn check(&self) -> Result<()> {
        check_in_place(&self.file, &self.path)
    }

    /// Whether another process holds the lock of the file at `path`; `false` if there is no such file.
    ///
    /// The check takes a shared lock for a moment. A process that calls [`FileLock::try_acquire`] at that moment gets
    /// [`Error::InUse`]; callers that must avoid this hold a [`FileLock`] on another file around both calls.
    ///
    /// # Errors
    /// The file cannot be opened, or the system fails to lock it.
    pub fn is_taken(path: impl AsRef<Path>) -> Result<bool> {
        let path = path.as_ref();
        let io = Error::io(path);
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

fn open(path: &Path) -> Result<File> {
    let io = Error::io(path);
    create_parent(path).map_err(io)?;
    open_in_place(path, File::options().read(true).write(true).create(true).truncate(false)).map_err(io)
}

/// Locks an open file for its one writer.
pub(crate) fn lock_file(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { path: path.to_owned(), holder: None }),
        // Some network file systems, and pipes, have no locks.
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(()),
        Err(TryLockError::Error(source)) => Err(Error::io(path)(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JsonlAppender;

    #[test]
    fn is_taken_while_an_appender_is_open() {
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
    fn second_try_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = FileLock::try_acquire(&path).unwrap();
        let error = FileLock::try_acquire(&path).unwrap_err();
        assert!(matches!(error, Error::InUse { holder: Some(id), .. } if id == std::process::id()), "{error}");
        drop(first);
        FileLock::try_acquire(&path).unwrap();
    }

    #[test]
    fn removed_lock_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/lock");
        let lock = FileLock::try_acquire(&path).unwrap();
        lock.check().unwrap();
        std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
        assert!(matches!(lock.check(), Err(Error::Removed { .. })));
        // Another process would have its own.
        let _other = FileLock::try_acquire(&path).unwrap();
        assert!(lock.check().unwrap_err().to_string().contains("lock: was removed"));
    }

    #[test]
    fn second_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/run.lock");
        let first = FileLock::wait(&path).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let second = FileLock::wait(&path).unwrap();
                sender.send(()).unwrap();
                drop(second);
            });
            let wait = std::time::Duration::from_millis(50);
            assert!(receiver.recv_timeout(wait).is_err(), "the first is still held");
            drop(first);
            receiver.recv().unwrap();
        });
    }
}
