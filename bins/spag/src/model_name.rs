//! The name of a checkpoint, after its folder or its GGUF file.

use std::path::{Path, PathBuf};

use spag_cli::Result;

/// Where a checkpoint is, in full, and its name: that of its folder, also if it is written as `.` or `models/..`, that of the folder
/// above for `model`, as stages of a run call theirs, or that of a GGUF file without `.gguf`.
///
/// # Errors
/// A checkpoint that does not exist.
pub(crate) fn model_name(path: &Path) -> Result<(PathBuf, Option<String>)> {
    let Ok(full) = path.canonicalize() else {
        // Its error says what may be meant.
        spag_model::checkpoint::load_config(path)?;
        return Err(spag_io::Error::io(path)(std::io::ErrorKind::NotFound.into()).into());
    };
    let is_gguf = full.extension().is_some_and(|extension| extension == "gguf") && full.is_file();
    let own = if is_gguf { full.file_stem() } else { full.file_name() };
    let above = full.parent().and_then(Path::file_name).filter(|_| !is_gguf && own == Some("model".as_ref()));
    let name = above.or(own).map(|name| name.to_string_lossy().into_owned());
    Ok((full, name))
}
