//! The name of a checkpoint, after its folder or its GGUF file.

use std::path::{Path, PathBuf};

use spag_cli::Result;

/// Where a checkpoint is, in full, and its own name there: that of the folder also if it is written as `.` or `models/..`,
/// or that of a GGUF file without `.gguf`.
///
/// # Errors
/// A checkpoint that does not exist.
pub(crate) fn model_name(path: &Path) -> Result<(PathBuf, Option<String>)> {
    let path = path.canonicalize().map_err(spag_io::Error::io(path))?;
    let is_gguf = path.extension().is_some_and(|extension| extension == "gguf") && path.is_file();
    let name = if is_gguf { path.file_stem() } else { path.file_name() };
    let name = name.map(|name| name.to_string_lossy().into_owned());
    Ok((path, name))
}
