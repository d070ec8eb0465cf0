//! Where a relative path of a configuration leads.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Finds an input named by `setting`.
///
/// A relative path is looked up in the current directory, as in every other program, and then in the folder above the
/// configuration's own: `configs/tiny.toml` can say `data/tiny-llama` and be run from anywhere.
pub(crate) fn find_input(setting: &'static str, path: &Path, config_file: &Path) -> Result<PathBuf> {
    let mut tried = vec![path.to_path_buf()];
    if path.is_relative() {
        let beside = config_file.canonicalize().ok().and_then(|file| Some(file.parent()?.parent()?.join(path)));
        tried.extend(beside);
    }
    match tried.iter().find(|path| path.exists()) {
        Some(found) => Ok(found.clone()),
        None => Err(Error::MissingInput { setting, tried }),
    }
}
