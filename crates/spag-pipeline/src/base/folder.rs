//! A folder that appears under its name only when everything is in it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The folder while it is being filled, beside its place; removed if it is dropped unfinished.
#[derive(Debug)]
pub(super) struct Unfinished {
    place: PathBuf,
    temporary: PathBuf,
}

impl Unfinished {
    /// Begins at once, so that a place that cannot be written costs no hours.
    pub(super) fn create(place: &Path) -> Result<Self> {
        let temporary = beside(place, ".unfinished");
        remove(&temporary)?;
        fs::create_dir_all(&temporary).map_err(Error::io("create it", &temporary))?;
        Ok(Self { place: place.to_path_buf(), temporary })
    }

    pub(super) fn path(&self) -> &Path {
        &self.temporary
    }

    /// Puts the folder in its place. The one that was there is kept until the new one is.
    pub(super) fn finish(self) -> Result<()> {
        let old = beside(&self.place, ".old");
        remove(&old)?;
        if self.place.exists() {
            fs::rename(&self.place, &old).map_err(Error::io("move the old one aside", &self.place))?;
        }
        fs::rename(&self.temporary, &self.place).map_err(Error::io("put it in its place", &self.place))?;
        remove(&old)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After `finish` there is nothing left to remove; before, a stray folder would be harmless.
        let _ = fs::remove_dir_all(&self.temporary);
    }
}

fn beside(place: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(place.file_name().unwrap_or_default());
    name.push(ending);
    place.with_file_name(name)
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
    fn replaces_the_old_folder_as_a_whole() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("model");
        for text in ["first", "second"] {
            let folder = Unfinished::create(&place).unwrap();
            fs::write(folder.path().join("a"), text).unwrap();
            folder.finish().unwrap();
            assert_eq!(fs::read_to_string(place.join("a")).unwrap(), text);
        }
        drop(Unfinished::create(&place).unwrap());
        assert_eq!(fs::read_to_string(place.join("a")).unwrap(), "second");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
