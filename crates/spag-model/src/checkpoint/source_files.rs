//! A model's own Python code in a checkpoint folder, copied when saving.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use spag_io::read_whole;

use crate::error::{Error, Result};

/// Maximum bytes of a Python file. Those of published models have some fifty thousand.
const MAX_BYTES: u64 = 4 << 20;
/// Maximum Python files of a folder.
const MAX_FILES: usize = 64;

/// The Python files of a folder, by name: the code of models outside of transformers. It is never run here, but copied
/// to saved folders, so that other programs can open them.
///
/// # Errors
/// A folder or file cannot be read, or the limits are exceeded.
pub fn python_files(dir: impl AsRef<Path>) -> Result<Vec<(String, Vec<u8>)>> {
    let dir = dir.as_ref();
    let io = spag_io::Error::io(dir);
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        // Names that are not UTF-8 cannot be imported.
        let Some(name) = path.file_name().and_then(OsStr::to_str) else { continue };
        if path.extension() != Some(OsStr::new("py")) || !path.is_file() {
            continue;
        }
        if files.len() == MAX_FILES {
            return Err(Error::Config(format!("{}: more than {MAX_FILES} Python files in this folder", dir.display())));
        }
        files.push((name.to_owned(), read_whole(&path, MAX_BYTES)?));
    }
    files.sort_unstable();
    Ok(files)
}
