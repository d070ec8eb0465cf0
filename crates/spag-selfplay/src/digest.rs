//! Digests of checkpoints and files, which depend only on their contents.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use spag_io::{Error, hex, read_excerpts};

use crate::error::Result;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// The index of a sharded checkpoint, which the fingerprint leaves out.
const INDEX: &str = "model.safetensors.index.json";

/// Sixteen hexadecimal digits that identify the checkpoint in a folder or a GGUF file, for records of games.
///
/// Computed from the sizes of weights, configuration and tokenizer and from 4 MiB of each file, evenly spaced (all of a
/// shorter file). This is fast for checkpoints of many gigabytes, and every training step changes it. The path of the
/// folder or file and other files in the folder do not matter.
///
/// # Errors
/// The folder or a file cannot be read.
pub fn checkpoint_fingerprint(checkpoint: impl AsRef<Path>) -> Result<String> {
    let checkpoint = checkpoint.as_ref();
    if checkpoint.is_file() {
        let mut hash = Sha256::new();
        read_excerpts(checkpoint, |bytes| hash.update(bytes))?;
        return Ok(hex(&hash.finalize()[..8]));
    }
    let mut hash = Sha256::new();
    for path in checkpoint_files(checkpoint)?.into_iter().filter(|path| !path.ends_with(INDEX)) {
        hash.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        hash.update([0]);
        read_excerpts(&path, |bytes| hash.update(bytes))?;
    }
    Ok(hex(&hash.finalize()[..8]))
}

/// As [`checkpoint_fingerprint`], of a LoRA adapter's folder: its weights and its settings.
///
/// # Errors
/// A file cannot be read.
pub fn adapter_fingerprint(folder: impl AsRef<Path>) -> Result<String> {
    let mut hash = Sha256::new();
    for name in ["adapter_model.safetensors", "adapter_config.json"] {
        let path = folder.as_ref().join(name);
        read_excerpts(&path, |bytes| hash.update(bytes))?;
    }
    Ok(hex(&hash.finalize()[..8]))
}

/// SHA-256 in hexadecimal digits of a file with its length, or of the files of the checkpoint in a folder with their names.
///
/// # Errors
/// A file cannot be read.
pub fn content_digest(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let files = if path.is_dir() { checkpoint_files(path)? } else { vec![path.to_owned()] };
    let mut hash = Sha256::new();
    for file in &files {
        add_file(&mut hash, file).map_err(Error::io(file))?;
    }
    if path.is_dir() {
        let names: Vec<&[u8]> =
            files.iter().filter_map(|file| file.file_name()).map(|n| n.as_encoded_bytes()).collect();
        hash.update(names.join(&b"/"[..]));
    }
    Ok(hex(&hash.finalize()))
}

/// Adds the length of a file and its bytes.
fn add_file(hash: &mut Sha256, path: &Path) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    hash.update(length.to_le_bytes());
    let mut buffer = vec![0; CHUNK];
    let mut left = length;
    while left > 0 {
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.read_exact(&mut buffer[..wanted])?;
        hash.update(&buffer[..wanted]);
        left -= wanted as u64;
    }
    Ok(())
}

/// The files that determine what a checkpoint generates, sorted by path.
fn checkpoint_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = Error::io(folder);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let belongs = name.ends_with(".safetensors")
            || name.starts_with("tokenizer")
            || ["config.json", "generation_config.json", "special_tokens_map.json", INDEX].contains(&name.as_ref());
        if belongs && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_only_on_the_files_of_the_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        let digests = || [checkpoint_fingerprint(folder.path()).unwrap(), content_digest(folder.path()).unwrap()];
        let differ = |a: &[String; 2], b: &[String; 2]| a[0] != b[0] && a[1] != b[1];
        let mut weights = vec![7u8; 5 << 20];
        write("model.safetensors", &weights);
        write("config.json", b"{}");
        let first = digests();
        assert_eq!(first.each_ref().map(String::len), [16, 64]);
        write("report.html", b"...");
        assert_eq!(digests(), first);
        write("config.json", b"[]");
        assert!(differ(&digests(), &first));
        write("config.json", b"{}");
        let copy = folder.path().join("copy.gguf");
        fs::write(&copy, &weights).unwrap();
        let of_file = checkpoint_fingerprint(&copy).unwrap();
        assert_eq!(of_file, checkpoint_fingerprint(folder.path().join("model.safetensors")).unwrap());
        assert_ne!(of_file, first[0]);
        *weights.last_mut().unwrap() = 8;
        write("model.safetensors", &weights);
        assert!(differ(&digests(), &first));
        let error = checkpoint_fingerprint(folder.path().join("absent")).unwrap_err().to_string();
        assert!(error.contains("absent"), "{error}");
    }
}
