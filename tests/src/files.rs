//! Paths of the repository, and JSON files.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A file or folder of `tests/fixtures`.
pub fn fixture(name: impl AsRef<Path>) -> PathBuf {
    root().join("tests/fixtures").join(name)
}

/// The contents of a JSON file.
pub fn json(path: impl AsRef<Path>) -> Value {
    let path = path.as_ref();
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The rows of a JSONL file.
pub fn json_lines(path: impl AsRef<Path>) -> Vec<Value> {
    let path = path.as_ref();
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let row = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {e}: {line}", path.display()));
    text.lines().map(row).collect()
}

/// Copies the files of a folder, without its subfolders.
pub fn copy_folder(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    fs::create_dir_all(&to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.as_ref().join(entry.file_name())).unwrap();
        }
    }
}
