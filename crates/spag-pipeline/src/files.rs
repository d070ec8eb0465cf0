//! Files that are there whole or not at all, and their fingerprints.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use spag_io::AtomicFile;

use crate::error::{Error, Result};

/// Writes text into a file that appears when it is whole.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(text.as_bytes()).map_err(Error::io("write it", path))?;
    Ok(file.commit()?)
}

/// Writes a line of JSON per row into a file that appears when it is whole.
pub(crate) fn write_jsonl<T: Serialize>(path: &Path, rows: &[T]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    for row in rows {
        let written = serde_json::to_writer(&mut file, row).map_err(std::io::Error::from);
        written.and_then(|()| file.write_all(b"\n")).map_err(Error::io("write it", path))?;
    }
    Ok(file.commit()?)
}

/// Reads a JSON file of the run folder; nothing when it is not there.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read it", path)(error)),
    };
    let read = serde_json::from_str(&text);
    read.map(Some).map_err(|error| Error::DamagedRun { path: path.to_path_buf(), message: error.to_string() })
}

/// SHA-256, in hexadecimal, of a file, or of the checkpoint in a folder: its weights, configuration and tokenizer, with
/// their names. What else lies in the folder, such as reports, does not count.
pub(crate) fn fingerprint(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    let mut add = |file: &Path| -> Result<()> {
        let bytes = fs::read(file).map_err(Error::io("read it", file))?;
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
        Ok(())
    };
    if !path.is_dir() {
        add(path)?;
        return Ok(hex(&hash.finalize()));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(Error::io("list it", path))? {
        let file = entry.map_err(Error::io("list it", path))?.path();
        if file.is_file() && is_of_checkpoint(&file) {
            files.push(file);
        }
    }
    files.sort();
    for file in &files {
        add(file)?;
    }
    let names: Vec<&[u8]> =
        files.iter().filter_map(|file| file.file_name()).map(|name| name.as_encoded_bytes()).collect();
    hash.update(names.join(&b"/"[..]));
    Ok(hex(&hash.finalize()))
}

fn is_of_checkpoint(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.extension().is_some_and(|ending| ending == "safetensors")
        || name.starts_with("tokenizer")
        || ["config.json", "generation_config.json", "special_tokens_map.json", "model.safetensors.index.json"]
            .contains(&name.as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
