//! A file with the run's token for the ranks of one machine, readable only by its user.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::Token;
use crate::{Error, Result};

/// Maximum bytes that are read.
const MAX_LEN: u64 = 1024;
/// The permissions of group and others.
const OTHERS: u32 = 0o077;

/// Removed when dropped. Locked until then, so that a later run recognises files of killed processes.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl TokenFile {
    /// Writes the token for ranks that connect to `port`, replacing that of an earlier run.
    ///
    /// # Errors
    /// [`Error::TokenFile`].
    pub(crate) fn write(port: u16, token: &Token) -> Result<Self> {
        Self::write_in(&folder(), port, token)
    }

    fn write_in(folder: &Path, port: u16, token: &Token) -> Result<Self> {
        make_folder(folder)?;
        let path = path(folder, port);
        let beside = folder.join(format!("port-{port}.{}.new", std::process::id()));
        spag_io::remove_unlocked_files(folder, is_token_file);
        // An earlier process may have had the same process ID.
        let _ = std::fs::remove_file(&beside);
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).and_then(|mut file| {
            file.try_lock()?;
            file.write_all(token.text().as_bytes())?;
            std::fs::rename(&beside, &path)?;
            Ok(file)
        });
        match written {
            Ok(file) => Ok(Self { path, _file: file }),
            Err(error) => {
                let _ = std::fs::remove_file(&beside);
                Err(wrong(&path, error.to_string()))
            }
        }
    }

    /// The token for ranks that connect to `port`, or `None` if it is not written yet.
    ///
    /// # Errors
    /// [`Error::TokenFile`] if another user owns or can access the file or its folder.
    pub(crate) fn read(port: u16) -> Result<Option<Token>> {
        Self::read_in(&folder(), port)
    }

    fn read_in(folder: &Path, port: u16) -> Result<Option<Token>> {
        match std::fs::symlink_metadata(folder) {
            Ok(found) => check(folder, &found, found.is_dir())?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(folder, error.to_string())),
        }
        let path = path(folder, port);
        // Follows no link, and does not wait for the peer of a named pipe.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(&path, error.to_string())),
        };
        read(&file, &path).map(Some)
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn read(file: &File, path: &Path) -> Result<Token> {
    let found = file.metadata().map_err(|error| wrong(path, error.to_string()))?;
    check(path, &found, found.is_file())?;
    let mut text = String::new();
    file.take(MAX_LEN).read_to_string(&mut text).map_err(|error| wrong(path, error.to_string()))?;
    Token::new(&text)
}

/// A folder of this user: in XDG_RUNTIME_DIR, or in the temporary folder.
fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(runtime) if runtime.is_absolute() && runtime.is_dir() => runtime.join("spag"),
        _ => std::env::temp_dir().join(format!("spag-{}", rustix::process::getuid().as_raw())),
    }
}

fn path(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!("port-{port}.token"))
}

/// Whether a file of this name is a [`path`].
fn is_token_file(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("port-") && name.ends_with(".token"))
}

fn make_folder(folder: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(wrong(folder, error.to_string())),
    }
    let found = std::fs::symlink_metadata(folder).map_err(|error| wrong(folder, error.to_string()))?;
    check(folder, &found, found.is_dir())
}

fn check(path: &Path, found: &Metadata, is_expected_type: bool) -> Result<()> {
    if !is_expected_type {
        return Err(wrong(path, "it is not a file or folder as expected; remove it".into()));
    }
    if found.uid() != rustix::process::getuid().as_raw() {
        return Err(wrong(path, format!("it belongs to user {}; set SPAG_TOKEN", found.uid())));
    }
    if found.mode() & OTHERS != 0 {
        return Err(wrong(path, format!("other users can access it (mode {:o}); remove it", found.mode() & 0o777)));
    }
    Ok(())
}

fn wrong(path: &Path, reason: String) -> Error {
    Error::TokenFile { path: path.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn message(result: Result<Option<Token>>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn token_file_is_private_replaced_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("spag");
        assert_eq!(TokenFile::read_in(&folder, 7).unwrap(), None);
        let token = Token::random().unwrap();
        let file = TokenFile::write_in(&folder, 7, &token).unwrap();
        assert_eq!(std::fs::metadata(&file.path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(TokenFile::read_in(&folder, 7).unwrap().as_ref(), Some(&token));
        assert_eq!(TokenFile::read_in(&folder, 8).unwrap(), None);
        // A stale file is replaced regardless of its mode.
        std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let next = Token::random().unwrap();
        let _next_file = TokenFile::write_in(&folder, 7, &next).unwrap();
        assert_eq!(TokenFile::read_in(&folder, 7).unwrap().as_ref(), Some(&next));
        drop(file);
        assert_eq!(TokenFile::read_in(&folder, 7).unwrap(), None);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn files_of_killed_processes_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("spag");
        let alive = TokenFile::write_in(&folder, 7, &Token::random().unwrap()).unwrap();
        for stale in ["port-8.token", "port-9.token"] {
            std::fs::write(folder.join(stale), "the token of a killed run").unwrap();
        }
        std::fs::write(folder.join("other"), "").unwrap();
        let _new = TokenFile::write_in(&folder, 9, &Token::random().unwrap()).unwrap();
        let left = |name: &str| folder.join(name).exists();
        assert!(alive.path.exists() && left("port-9.token") && left("other") && !left("port-8.token"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn named_pipe_in_place_of_the_file_is_rejected_and_not_waited_for() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("spag");
        make_folder(&folder).unwrap();
        mknodat(CWD, path(&folder, 7), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(message(TokenFile::read_in(&folder, 7)).contains("not a file or folder"));
        let token = Token::random().unwrap();
        let _file = TokenFile::write_in(&folder, 7, &token).unwrap();
        assert_eq!(TokenFile::read_in(&folder, 7).unwrap().as_ref(), Some(&token));
    }

    #[test]
    fn token_file_is_rejected_if_others_can_access_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("spag");
        let file = TokenFile::write_in(&folder, 7, &Token::random().unwrap()).unwrap();
        std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(message(TokenFile::read_in(&folder, 7)).contains("mode 640"));
        std::fs::remove_file(&file.path).unwrap();
        symlink("/etc/hostname", &file.path).unwrap();
        assert!(TokenFile::read_in(&folder, 7).is_err());
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(message(TokenFile::read_in(&folder, 7)).contains("mode 755"));
        assert!(TokenFile::write_in(&folder, 7, &Token::random().unwrap()).is_err());
        let link = root.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(message(TokenFile::read_in(&link, 7)).contains("not a file or folder"));
    }
}
