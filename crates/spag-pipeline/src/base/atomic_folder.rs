//! A folder that appears under its path when it is complete.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// An incomplete folder beside its final path. Removed if it is dropped without [`AtomicFolder::commit`].
#[derive(Debug)]
pub(super) struct AtomicFolder {
    target: PathBuf,
    temporary: PathBuf,
}

impl AtomicFolder {
    /// Creates the temporary folder.
    pub(super) fn create(target: &Path) -> Result<Self> {
        let temporary = beside(target, ".unfinished");
        remove(&temporary)?;
        fs::create_dir_all(&temporary).map_err(Error::io("create it", &temporary))?;
        Ok(Self { target: target.to_path_buf(), temporary })
    }

    pub(super) fn path(&self) -> &Path {
        &self.temporary
    }

    /// Renames the folder to its path. An existing folder is deleted after that.
    pub(super) fn commit(self) -> Result<()> {
        let old = beside(&self.target, ".old");
        remove(&old)?;
        if self.target.exists() {
            fs::rename(&self.target, &old).map_err(Error::io("move the old one aside", &self.target))?;
        }
        fs::rename(&self.temporary, &self.target).map_err(Error::io("rename it to its path", &self.target))?;
        remove(&old)
    }
}

impl Drop for AtomicFolder {
    fn drop(&mut self) {
        // Best effort: drop cannot report an error.
        let _ = fs::remove_dir_all(&self.temporary);
    }
}

fn beside(target: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(suffix);
    target.with_file_name(name)
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove it", folder)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_replaces_the_folder_and_drop_leaves_it() {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("model");
        for text in ["first", "second"] {
            let folder = AtomicFolder::create(&target).unwrap();
            fs::write(folder.path().join("a"), text).unwrap();
            folder.commit().unwrap();
            assert_eq!(fs::read_to_string(target.join("a")).unwrap(), text);
        }
        drop(AtomicFolder::create(&target).unwrap());
        assert_eq!(fs::read_to_string(target.join("a")).unwrap(), "second");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
