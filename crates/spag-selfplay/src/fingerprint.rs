//! Which checkpoint it is, told by what is in it and not by where it lies.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Bytes that are read at a time.
const PIECE: u64 = 64 << 10;
/// Pieces of a long file that are read, evenly spread.
const PIECES: u64 = 64;

/// Sixteen hexadecimal digits that tell the checkpoint of a folder from others, for the records of games.
///
/// Made from the sizes of its weights, configuration and tokenizer and from 4 MiB of each of these files, spread evenly
/// (the whole of a shorter one): a checkpoint of many gigabytes takes a moment, and a training step changes it. Where
/// the folder lies, and what else is in it, does not count.
///
/// # Errors
/// The folder or a file in it cannot be read.
pub fn checkpoint_fingerprint(folder: impl AsRef<Path>) -> Result<String> {
    let folder = folder.as_ref();
    let io = |source| Error::Io { path: folder.to_owned(), source };
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if decides(&path) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for path in files {
        hash.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        hash.update([0]);
        add(&mut hash, &path).map_err(|source| Error::Io { path, source })?;
    }
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Whether a file of this name decides what the model says.
fn decides(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".safetensors")
        || name.starts_with("tokenizer")
        || ["config.json", "generation_config.json", "special_tokens_map.json"].contains(&name.as_ref())
}

fn add(hash: &mut Sha256, path: &Path) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    hash.update(length.to_le_bytes());
    let mut buffer = Vec::with_capacity(PIECE as usize);
    let mut piece = |from: u64| -> std::io::Result<()> {
        file.seek(SeekFrom::Start(from))?;
        buffer.clear();
        file.by_ref().take(PIECE).read_to_end(&mut buffer)?;
        hash.update(&buffer);
        Ok(())
    };
    if length <= PIECE * PIECES {
        return (0..length.div_ceil(PIECE)).try_for_each(|index| piece(index * PIECE));
    }
    // The first begins the file and the last ends it.
    (0..PIECES).try_for_each(|index| piece((length - PIECE) * index / (PIECES - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_it_counts_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        let print = || checkpoint_fingerprint(folder.path()).unwrap();
        let mut weights = vec![7u8; 5 << 20];
        write("model.safetensors", &weights);
        write("config.json", b"{}");
        let first = print();
        assert_eq!(first.len(), 16);
        write("report.html", b"...");
        assert_eq!(print(), first);
        write("config.json", b"[]");
        assert_ne!(print(), first);
        write("config.json", b"{}");
        *weights.last_mut().unwrap() = 8;
        write("model.safetensors", &weights);
        assert_ne!(print(), first);
        let said = checkpoint_fingerprint(folder.path().join("absent")).unwrap_err().to_string();
        assert!(said.contains("absent"), "{said}");
    }
}
