//! Digests of files and bytes.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Bytes per sample of a file.
const SAMPLE: u64 = 64 << 10;
/// Number of evenly spaced samples of a long file.
const SAMPLES: u64 = 64;

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 of a file's content, in hexadecimal.
///
/// # Errors
/// The file cannot be read.
pub fn sha256_file(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    let io = Error::io(path);
    let mut file = BufReader::with_capacity(1 << 20, File::open(path).map_err(io)?);
    let mut hasher = Sha256::new();
    loop {
        let bytes = file.fill_buf().map_err(io)?;
        if bytes.is_empty() {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(bytes);
        let read = bytes.len();
        file.consume(read);
    }
}

/// Calls `each` with the length of a file and 4 MiB of evenly spaced samples (all of a shorter file), so that digests of files
/// of many gigabytes take milliseconds. They detect every training step, but may miss changes of single bytes.
///
/// # Errors
/// The file cannot be read.
pub fn read_excerpts(path: impl AsRef<Path>, mut each: impl FnMut(&[u8])) -> Result<()> {
    let path = path.as_ref();
    samples(path, &mut each).map_err(Error::io(path))
}

fn samples(path: &Path, each: &mut dyn FnMut(&[u8])) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    each(&length.to_le_bytes());
    let mut buffer = Vec::with_capacity(SAMPLE as usize);
    let mut add = |from: u64| -> std::io::Result<()> {
        file.seek(SeekFrom::Start(from))?;
        buffer.clear();
        file.by_ref().take(SAMPLE).read_to_end(&mut buffer)?;
        each(&buffer);
        Ok(())
    };
    if length <= SAMPLE * SAMPLES {
        return (0..length.div_ceil(SAMPLE)).try_for_each(|index| add(index * SAMPLE));
    }
    // The first sample is at the start of the file and the last one at its end.
    (0..SAMPLES).try_for_each(|index| add((length - SAMPLE) * index / (SAMPLES - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_and_bytes_have_the_same_digest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!([sha256(b"abc"), sha256_file(&path).unwrap()], [expected, expected]);
    }
}
