//! Paths of the repository, JSON files, and checkpoints to change.

use std::path::{Path, PathBuf};
use std::{env, fs, iter};

use serde_json::Value;

/// The root of the repository: the folder named by `SPAG_ROOT`, for tests that run on another machine, or where they were built.
pub fn root() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
    env::var_os("SPAG_ROOT").map_or_else(built, PathBuf::from)
}

/// A file or folder of `tests/fixtures`.
pub fn fixture(name: impl AsRef<Path>) -> PathBuf {
    root().join("tests/fixtures").join(name)
}

/// Checks that a file of the repository, named from its root, is the text that a test makes. With the environment variable `variable`
/// the test writes it first.
pub fn assert_written(name: &str, text: &str, variable: &str) {
    let path = root().join(name);
    if env::var_os(variable).is_some() {
        fs::write(&path, text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let different = text.lines().zip(written.lines().chain(iter::repeat(""))).find(|(now, then)| now != then);
    let remedy = format!("{name} is of other declarations; with {variable}=1 this test writes it");
    assert_eq!((different, text.len()), (None, written.len()), "{remedy}");
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

/// Changes the numbers of an f32 tensor in the checkpoint in `folder`. `change` also gets the tensor's shape.
pub fn change_tensor(folder: impl AsRef<Path>, name: &str, change: impl FnOnce(&mut [f32], &[usize])) {
    let path = folder.as_ref().join("model.safetensors");
    let mut file = fs::read(&path).unwrap();
    let size = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let header = 8 + usize::try_from(u64::from_le_bytes(file[..8].try_into().unwrap())).unwrap();
    let tensors: Value = serde_json::from_slice(&file[8..header]).unwrap();
    let tensor = &tensors[name];
    assert_eq!(tensor["dtype"], "F32", "{name}");
    let shape: Vec<usize> = tensor["shape"].as_array().unwrap().iter().map(size).collect();
    let bytes = &mut file[header..][size(&tensor["data_offsets"][0])..size(&tensor["data_offsets"][1])];
    let mut numbers: Vec<f32> = bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    change(&mut numbers, &shape);
    bytes.chunks_mut(4).zip(numbers).for_each(|(four, number)| four.copy_from_slice(&number.to_le_bytes()));
    fs::write(&path, file).unwrap();
}
