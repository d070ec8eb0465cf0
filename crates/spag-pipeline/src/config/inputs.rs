//! Files and folders that settings name.

use std::path::{Path, PathBuf};

use super::missing::MissingInput;
use crate::error::{Error, Result};

/// Finds the inputs of a configuration.
pub(super) struct InputFinder<'a> {
    config_file: &'a Path,
    /// Those that do not exist.
    pub(super) missing: Vec<MissingInput>,
}

impl<'a> InputFinder<'a> {
    pub(super) fn new(config_file: &'a Path) -> Self {
        Self { config_file, missing: Vec::new() }
    }

    /// Finds an input file or folder. A relative path is looked up in the current directory, then in the parent of the
    /// configuration's folder, so that `configs/tiny.toml` with `data/tiny-llama` works from any directory. One that does not
    /// exist stays as it is, and is noted.
    pub(super) fn find(&mut self, setting: &'static str, path: &mut PathBuf) {
        let mut tried = vec![path.clone()];
        if path.is_relative() {
            let canonical = self.config_file.canonicalize().ok();
            tried.extend(canonical.and_then(|file| Some(file.parent()?.parent()?.join(&*path))));
        }
        match tried.iter().find(|path| path.exists()) {
            Some(found) => path.clone_from(found),
            None => self.missing.push(MissingInput { setting, tried }),
        }
    }

    /// # Errors
    /// [`Error::MissingInputs`], if one does not exist.
    pub(super) fn finish(self) -> Result<()> {
        if self.missing.is_empty() { Ok(()) } else { Err(Error::MissingInputs { inputs: self.missing }) }
    }
}
