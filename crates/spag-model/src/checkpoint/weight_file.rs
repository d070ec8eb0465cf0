//! One safetensors file: its header, read and checked at once, and its tensors, read one at a time.

use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use safetensors::tensor::{Dtype, Metadata, SafeTensorError, TensorInfo};
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use spag_io::quote;

use crate::error::{Error, Result};

/// Bytes of a header, at most; as in the safetensors library.
const MAX_HEADER: u64 = 100_000_000;
/// Bytes read at a time.
const PIECE: usize = 16 << 20;
/// Bytes converted per task; a multiple of every element size, like [`PIECE`].
const SHARE: usize = 1 << 18;

/// A file with a valid header.
pub(super) struct WeightFile {
    pub(super) path: PathBuf,
    metadata: Metadata,
    /// Offset of the tensor data.
    data: u64,
}

/// A tensor of a file.
#[derive(Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) name: &'a str,
    pub(super) info: &'a TensorInfo,
    pub(super) values: Values,
}

/// What the values of a tensor may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// Weights: a NaN or an infinity is an error.
    Finite,
    /// Moments of an optimizer, which may overflow.
    Any,
}

/// A number format of weights in memory.
pub(super) trait Weight: Copy + Send + Sync {
    fn is_finite(self) -> bool;
}

impl Weight for f32 {
    fn is_finite(self) -> bool {
        self.is_finite()
    }
}

impl Weight for half::bf16 {
    fn is_finite(self) -> bool {
        self.is_finite()
    }
}

impl WeightFile {
    /// Opens a file and validates its header.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let wrong = |e: SafeTensorError| Error::Safetensors { path: path.to_owned(), reason: quote(&e.to_string()) };
        let io = spag_io::Error::io(path);
        let found = std::fs::metadata(path).map_err(io)?;
        if !found.is_file() {
            let odd = if found.is_dir() { "a folder" } else { "not a regular file" };
            return Err(Error::Safetensors { path: path.to_owned(), reason: format!("it is {odd}") });
        }
        let mut file = File::open(path).map_err(io)?;
        let file_len = file.metadata().map_err(io)?.len();
        let mut length = [0; 8];
        if file_len < length.len() as u64 {
            return Err(wrong(SafeTensorError::HeaderTooSmall));
        }
        file.read_exact(&mut length).map_err(io)?;
        let header = u64::from_le_bytes(length);
        let data = header.saturating_add(length.len() as u64);
        if data > file_len {
            return Err(wrong(SafeTensorError::InvalidHeaderLength));
        }
        if header > MAX_HEADER {
            return Err(wrong(SafeTensorError::HeaderTooLarge));
        }
        let mut json = vec![0; header as usize];
        file.read_exact(&mut json).map_err(io)?;
        let text = std::str::from_utf8(&json).map_err(|e| wrong(SafeTensorError::InvalidHeader(e)))?;
        let invalid = |e: serde_json::Error| wrong(SafeTensorError::InvalidHeaderDeserialization(e));
        serde_json::Deserializer::from_str(text).deserialize_map(UniqueNames).map_err(invalid)?;
        let metadata: Metadata = serde_json::from_str(text).map_err(invalid)?;
        if data.checked_add(metadata.data_len() as u64) != Some(file_len) {
            return Err(wrong(SafeTensorError::MetadataIncompleteBuffer));
        }
        Ok(Self { path: path.to_owned(), metadata, data })
    }

    /// All tensors, sorted by name, so that the same one of several errors is always reported.
    pub(super) fn tensors(&self) -> Vec<(String, TensorInfo)> {
        let mut all: Vec<_> = self.metadata.tensors().into_iter().map(|(name, info)| (name, info.clone())).collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Whether a tensor is in this file.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.metadata.info(name).is_some()
    }

    /// Opens the file for [`WeightFile::read`].
    pub(super) fn reader(&self) -> Result<File> {
        Ok(File::open(&self.path).map_err(spag_io::Error::io(&self.path))?)
    }

    /// Reads a tensor of a supported number format into `out`, converted to `T`. Holds at most one piece of the file in
    /// memory.
    pub(super) fn read<T: Weight>(
        &self,
        file: &mut File,
        tensor: Stored<'_>,
        out: &mut [T],
        narrow: impl Fn(f32) -> T + Sync,
    ) -> Result<()> {
        match tensor.info.dtype {
            Dtype::F32 => self.each(file, tensor, out, |b| narrow(f32::from_le_bytes(b))),
            Dtype::BF16 => self.each(file, tensor, out, |b| narrow(half::bf16::from_le_bytes(b).to_f32())),
            Dtype::F16 => self.each(file, tensor, out, |b| narrow(half::f16::from_le_bytes(b).to_f32())),
            other => Err(self.unsupported(tensor.name, other)),
        }
    }

    /// Whether [`WeightFile::read`] supports a number format.
    pub(super) fn check_dtype(&self, name: &str, info: &TensorInfo) -> Result<()> {
        match info.dtype {
            Dtype::F32 | Dtype::BF16 | Dtype::F16 => Ok(()),
            other => Err(self.unsupported(name, other)),
        }
    }

    fn unsupported(&self, name: &str, dtype: Dtype) -> Error {
        Error::Dtype { path: self.path.clone(), name: name.to_owned(), dtype: format!("{dtype:?}") }
    }

    fn each<T: Weight, const N: usize>(
        &self,
        file: &mut File,
        Stored { name, info, values }: Stored<'_>,
        out: &mut [T],
        convert: impl Fn([u8; N]) -> T + Sync,
    ) -> Result<()> {
        let io = spag_io::Error::io(&self.path);
        let start = self.data + info.data_offsets.0 as u64;
        file.seek(SeekFrom::Start(start)).map_err(io)?;
        let mut bytes = vec![0; PIECE.min(out.len() * N)];
        for (piece, part) in out.chunks_mut(PIECE / N).enumerate() {
            let bytes = &mut bytes[..part.len() * N];
            file.read_exact(bytes).map_err(io)?;
            // Found in the same pass: it costs less than reading the memory once more.
            let finite = part.par_chunks_mut(SHARE / N).zip(bytes.par_chunks(SHARE)).map(|(out, bytes)| {
                let mut finite = true;
                bytes.as_chunks().0.iter().zip(out).for_each(|(bytes, out)| {
                    *out = convert(*bytes);
                    finite &= out.is_finite();
                });
                finite
            });
            if finite.reduce(|| true, |one, other| one & other) || values == Values::Any {
                continue;
            }
            let index = piece * (PIECE / N) + part.iter().position(|value| !value.is_finite()).unwrap_or(0);
            return Err(Error::NotFinite { path: self.path.clone(), name: name.to_owned(), index });
        }
        Ok(())
    }
}

/// Accepts a JSON object whose keys differ. The library would take the last of two equal ones.
struct UniqueNames;

impl<'de> Visitor<'de> for UniqueNames {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some((name, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
            if seen.contains(&name) {
                return Err(A::Error::custom(format_args!("tensor `{}` is there twice", quote(&name))));
            }
            seen.insert(name);
        }
        Ok(())
    }
}
