//! A token that rank 0 leaves for the other ranks on its machine: a file that only its user can read.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Token;
use crate::{Error, Result};

/// The longest file that is read.
const MAX_LEN: u64 = 1024;
const OTHERS: u32 = 0o077;

/// A file with a token. Removed when dropped.
#[derive(Debug)]
pub(crate) struct TokenFile(PathBuf);

impl TokenFile {
    /// Leaves a token for those who join at `port` of this machine. Whatever an earlier run left there is replaced.
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
        // One of an earlier process with this number.
        let _ = std::fs::remove_file(&beside);
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
            .and_then(|mut file| file.write_all(token.text().as_bytes()))
            .and_then(|()| std::fs::rename(&beside, &path));
        match written {
            Ok(()) => Ok(Self(path)),
            Err(error) => {
                let _ = std::fs::remove_file(&beside);
                Err(wrong(&path, error.to_string()))
            }
        }
    }

    /// The token left for those who join at `port`, or `None` while there is none.
    ///
    /// # Errors
    /// [`Error::TokenFile`]: it, or its folder, is somebody else's or can be read by others.
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
        let no_links = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let file = match OpenOptions::new().read(true).custom_flags(no_links).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(&path, error.to_string())),
        };
        read(&file, &path).map(Some)
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn read(file: &File, path: &Path) -> Result<Token> {
    let found = file.metadata().map_err(|error| wrong(path, error.to_string()))?;
    check(path, &found, found.is_file())?;
    let mut text = String::new();
    file.take(MAX_LEN).read_to_string(&mut text).map_err(|error| wrong(path, error.to_string()))?;
    Token::new(&text)
}

/// The user's own folder for such files: the session's, which is gone after it, or one among the temporary files.
fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(runtime) if runtime.is_absolute() && runtime.is_dir() => runtime.join("spag"),
        _ => std::env::temp_dir().join(format!("spag-{}", rustix::process::getuid().as_raw())),
    }
}

fn path(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!("port-{port}.token"))
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

fn check(path: &Path, found: &Metadata, is_what_it_should_be: bool) -> Result<()> {
    if !is_what_it_should_be {
        return Err(wrong(path, "it is something else than expected; remove it".into()));
    }
    if found.uid() != rustix::process::getuid().as_raw() {
        return Err(wrong(path, format!("it belongs to user {}; set SPAG_TOKEN", found.uid())));
    }
    if found.mode() & OTHERS != 0 {
        return Err(wrong(path, format!("others can reach it (mode {:o}); remove it", found.mode() & 0o777)));
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

    fn said(result: Result<Option<Token>>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_token_is_left_read_and_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("spag");
        assert_eq!(TokenFile::read_in(&folder, 7).unwrap(), None);
        let token = Token::random().unwrap();
        let file = TokenFile::write_in(&folder, 7, &token).unwrap();
        assert_eq!(std::fs::metadata(&file.0).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(TokenFile::read_in(&folder, 7).unwrap().as_ref(), Some(&token));
        assert_eq!(TokenFile::read_in(&folder, 8).unwrap(), None);
        // A stale one is replaced, whatever it is.
        std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(0o644)).unwrap();
        let next = Token::random().unwrap();
        let _next_file = TokenFile::write_in(&folder, 7, &next).unwrap();
        assert_eq!(TokenFile::read_in(&folder, 7).unwrap().as_ref(), Some(&next));
        drop(file);
        assert_eq!(TokenFile::read_in(&folder, 7).unwrap(), None);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn what_others_can_reach_is_not_believed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("spag");
        let file = TokenFile::write_in(&folder, 7, &Token::random().unwrap()).unwrap();
        std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(said(TokenFile::read_in(&folder, 7)).contains("mode 640"));
        std::fs::remove_file(&file.0).unwrap();
        symlink("/etc/hostname", &file.0).unwrap();
        assert!(TokenFile::read_in(&folder, 7).is_err());
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(said(TokenFile::read_in(&folder, 7)).contains("mode 755"));
        assert!(TokenFile::write_in(&folder, 7, &Token::random().unwrap()).is_err());
        let link = root.path().join("link");
        symlink(&folder, &link).unwrap();
        assert!(said(TokenFile::read_in(&link, 7)).contains("something else"));
    }
}
