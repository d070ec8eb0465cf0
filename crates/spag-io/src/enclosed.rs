//! File access confined to a folder: links that lead outside are not followed.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, Result};
use crate::whole::read_file;

/// A folder that may have been written by others. Only its regular files are read, and no link inside it is followed. The path to
/// the folder itself may contain links.
///
/// ```
/// use spag_io::EnclosedFolder;
///
/// let outer = tempfile::tempdir()?;
/// std::fs::create_dir(outer.path().join("run"))?;
/// std::fs::write(outer.path().join("run/a"), "inside")?;
/// std::fs::write(outer.path().join("b"), "outside")?;
/// let run = EnclosedFolder::new(outer.path().join("run"));
/// assert_eq!(run.read_whole("a", 10)?, b"inside");
/// assert!(run.read_whole("../b", 10).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnclosedFolder {
    root: PathBuf,
}

const NOT_REGULAR: &str = "this is not a regular file, or its path has a link";

/// The kind of a folder entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A link, a pipe or a device.
    Other,
}

impl EnclosedFolder {
    /// The folder at `root`, which may not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder's path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Opens a regular file of the folder.
    ///
    /// # Errors
    /// It cannot be opened, is not a regular file, or a part of its path is a link or leads outside.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let file = open::at(&self.root, path.as_ref())?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(ErrorKind::InvalidInput, NOT_REGULAR)),
        }
    }

    /// Whether a regular file can be opened.
    pub fn has_file(&self, path: impl AsRef<Path>) -> bool {
        self.open(path).is_ok()
    }

    /// Reads a file of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`EnclosedFolder::open`], or the file is larger.
    pub fn read_whole(&self, path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
        let path = path.as_ref();
        self.open(path).and_then(|file| read_file(file, limit)).map_err(Error::io(&self.root.join(path)))
    }

    /// The sorted names of the entries of a subfolder that are valid UTF-8.
    ///
    /// # Errors
    /// It cannot be read, is not a folder, or a part of its path is a link or leads outside.
    pub fn entries(&self, path: impl AsRef<Path>) -> io::Result<Vec<(String, EntryKind)>> {
        let mut entries = open::entries(&self.root, path.as_ref())?;
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(entries)
    }

    /// Whether a path of the folder is a folder.
    pub fn has_folder(&self, path: impl AsRef<Path>) -> bool {
        open::at(&self.root, path.as_ref()).and_then(|file| file.metadata()).is_ok_and(|found| found.is_dir())
    }
}

/// The components of a path that stays within a folder.
fn names(path: &Path) -> io::Result<Vec<&Path>> {
    let name = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !path.components().all(name) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "this path leads out of its folder"));
    }
    Ok(path.iter().map(Path::new).filter(|name| *name != Path::new(".")).collect())
}

#[cfg(unix)]
mod open {
    use std::fs::File;
    use std::io::{self, ErrorKind};
    use std::path::Path;

    use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat};
    use rustix::io::Errno;

    use super::{EntryKind, NOT_REGULAR, names};

    /// Opens a path component by component, following no links and without waiting for the writer of a pipe.
    pub(super) fn at(root: &Path, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let names = names(path)?;
        let mut found = openat(CWD, root, flags | OFlags::DIRECTORY, Mode::empty())?;
        for (at, name) in names.iter().enumerate() {
            let kind = if at + 1 < names.len() { OFlags::DIRECTORY } else { OFlags::empty() };
            let opened = openat(&found, *name, flags | OFlags::NOFOLLOW | kind, Mode::empty());
            found = opened.map_err(|error| match error {
                Errno::LOOP | Errno::NOTDIR | Errno::NXIO => io::Error::new(ErrorKind::InvalidInput, NOT_REGULAR),
                other => other.into(),
            })?;
        }
        Ok(found.into())
    }

    pub(super) fn entries(root: &Path, path: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        let folder = at(root, path)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let kind = match entry.file_type() {
                FileType::Directory => EntryKind::Folder,
                FileType::RegularFile => EntryKind::File,
                // Some file systems do not report the type.
                FileType::Unknown => match at(root, &path.join(name)).and_then(|found| found.metadata()) {
                    Ok(found) if found.is_dir() => EntryKind::Folder,
                    Ok(found) if found.is_file() => EntryKind::File,
                    _ => EntryKind::Other,
                },
                _ => EntryKind::Other,
            };
            if name != "." && name != ".." {
                entries.push((name.to_owned(), kind));
            }
        }
        Ok(entries)
    }
}

/// Without `openat`, the components of a path are checked before it is opened.
#[cfg(not(unix))]
mod open {
    use std::fs::{self, File};
    use std::io::{self, ErrorKind};
    use std::path::{Path, PathBuf};

    use super::{EntryKind, names};

    fn checked(root: &Path, path: &Path) -> io::Result<PathBuf> {
        let mut whole = root.to_owned();
        for name in names(path)? {
            whole.push(name);
            if fs::symlink_metadata(&whole)?.is_symlink() {
                return Err(io::Error::new(ErrorKind::InvalidInput, "this path has a link"));
            }
        }
        Ok(whole)
    }

    pub(super) fn at(root: &Path, path: &Path) -> io::Result<File> {
        File::open(checked(root, path)?)
    }

    pub(super) fn entries(root: &Path, path: &Path) -> io::Result<Vec<(String, EntryKind)>> {
        let kind = |kind: fs::FileType| match () {
            () if kind.is_dir() => EntryKind::Folder,
            () if kind.is_file() => EntryKind::File,
            () => EntryKind::Other,
        };
        let entries = fs::read_dir(checked(root, path)?)?.flatten();
        let named = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, kind(entry.file_type().ok()?)));
        Ok(entries.filter_map(named).collect())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_of_the_folder_are_read() {
        let outer = tempfile::tempdir().unwrap();
        let (root, secret) = (outer.path().join("run"), outer.path().join("secret"));
        fs::create_dir_all(root.join("im/deep")).unwrap();
        fs::create_dir(&secret).unwrap();
        fs::write(secret.join("file"), "secret").unwrap();
        fs::write(root.join("im/file"), "own").unwrap();
        symlink(secret.join("file"), root.join("link")).unwrap();
        symlink("im/file", root.join("inner")).unwrap();
        symlink(&secret, root.join("linked")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
        let folder = EnclosedFolder::new(&root);
        assert_eq!(folder.read_whole("im/file", 3).unwrap(), b"own");
        assert_eq!(folder.read_whole("./im/./file", 3).unwrap(), b"own");
        assert!(folder.read_whole("im/file", 2).unwrap_err().to_string().contains("more than 2 bytes"));
        let absolute = secret.join("file");
        for path in [
            "link",
            "inner",
            "linked/file",
            "pipe",
            "im",
            "",
            "../secret/file",
            "im/../im/file",
            "none",
            "im/file/x",
            absolute.to_str().unwrap(),
            "/dev/zero",
        ] {
            assert!(!folder.has_file(path), "{path}");
        }
        let names = [
            ("im", EntryKind::Folder),
            ("inner", EntryKind::Other),
            ("link", EntryKind::Other),
            ("linked", EntryKind::Other),
            ("pipe", EntryKind::Other),
        ];
        assert_eq!(folder.entries("").unwrap(), names.map(|(name, kind)| (name.to_owned(), kind)));
        assert_eq!(folder.entries("im").unwrap().len(), 2);
        assert!(folder.has_folder("im/deep") && !folder.has_folder("linked") && !folder.has_folder("im/file"));
        for path in ["linked", "..", "im/file", "none"] {
            assert!(folder.entries(path).is_err(), "{path}");
        }
        // The operator may name the folder by a link.
        symlink(&root, outer.path().join("run-link")).unwrap();
        assert!(EnclosedFolder::new(outer.path().join("run-link")).has_file("im/file"));
    }
}
