//! Sequential reader of header fields. Every length is validated against the file before allocation.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Maximum bytes of a header. Those of published models have some 20 MB.
const MAX_HEADER: u64 = 128 << 20;

/// The error message prefix.
pub(crate) const INVALID: &str = "this GGUF file cannot be used";

/// The error of a file.
pub(super) fn invalid(path: &Path, reason: String) -> Error {
    Error::WeightFile { path: path.to_owned(), what: INVALID, reason }
}

/// A header being read.
pub(super) struct Header {
    path: PathBuf,
    file: BufReader<File>,
    /// Offset of the next byte.
    pub(super) at: u64,
    /// Bytes of the file.
    pub(super) length: u64,
}

impl Header {
    pub(super) fn new(path: &Path, file: File, length: u64) -> Self {
        Self { path: path.to_owned(), file: BufReader::new(file), at: 0, length }
    }

    /// Remaining bytes.
    pub(super) fn left(&self) -> u64 {
        self.length.saturating_sub(self.at)
    }

    pub(super) fn invalid(&self, reason: String) -> Error {
        invalid(&self.path, reason)
    }

    /// The next `N` bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// A length-prefixed text. Invalid UTF-8 is replaced.
    pub(super) fn text(&mut self) -> Result<String> {
        let length = self.u64()?;
        if length > self.left() {
            return Err(
                self.invalid(format!("a text of {length} bytes at byte {} is more than fits into the file", self.at))
            );
        }
        // Checked before the allocation, not only while reading.
        self.require(length)?;
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.require(bytes.len() as u64)?;
        self.file.read_exact(bytes).map_err(spag_io::Error::io(&self.path))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Checks that the file has that many more bytes, within the header limit.
    fn require(&self, bytes: u64) -> Result<()> {
        if bytes > self.left() {
            return Err(self.invalid("it ends within its header; is it incomplete?".into()));
        }
        if self.at + bytes > MAX_HEADER {
            return Err(self.invalid(format!("its header has more than {MAX_HEADER} bytes")));
        }
        Ok(())
    }
}
