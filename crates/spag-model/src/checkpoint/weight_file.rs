//! One file of weights, of either format: its header, read and checked at once, and its tensors, read one at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::{safetensors, torch};
use crate::error::{Error, Result};

/// Bytes read at a time.
const PIECE: usize = 16 << 20;
/// Bytes converted per task; a multiple of every element size, like [`PIECE`].
const SHARE: usize = 1 << 18;

/// A format of weight files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Of the safetensors library.
    Safetensors,
    /// Of `torch.save`.
    Torch,
}

impl Format {
    /// The end of a file's name.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Safetensors => ".safetensors",
            Self::Torch => ".bin",
        }
    }

    fn invalid(self, path: &Path, reason: String) -> Error {
        let path = path.to_owned();
        match self {
            Self::Safetensors => Error::Safetensors { path, reason },
            Self::Torch => Error::Torch { path, reason },
        }
    }
}

/// A file with a valid header.
pub(super) struct WeightFile {
    pub(super) path: PathBuf,
    /// By name, so that the same one of several errors is always reported.
    tensors: BTreeMap<String, TensorInfo>,
}

/// Where a tensor is in its file: little-endian elements, one after the other, last index first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorInfo {
    pub(super) dtype: StoredDtype,
    pub(super) shape: Vec<usize>,
    /// Offset of its first byte in the file.
    pub(super) start: u64,
}

/// Number format of a stored tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoredDtype {
    F32,
    F16,
    Bf16,
    /// One that is not read: its name.
    Other(String),
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
    pub(super) fn open(path: &Path, format: Format) -> Result<Self> {
        let io = spag_io::Error::io(path);
        let found = std::fs::metadata(path).map_err(io)?;
        if !found.is_file() {
            let odd = if found.is_dir() { "a folder" } else { "not a regular file" };
            return Err(format.invalid(path, format!("it is {odd}")));
        }
        let file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let tensors = match format {
            Format::Safetensors => safetensors::tensors(path, file, length)?,
            Format::Torch => torch::tensors(path, file, length)?,
        };
        Ok(Self { path: path.to_owned(), tensors })
    }

    /// All tensors, sorted by name.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors.iter().map(|(name, info)| (name.as_str(), info))
    }

    /// Whether a tensor is in this file.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
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
        match &tensor.info.dtype {
            StoredDtype::F32 => self.each(file, tensor, out, |b| narrow(f32::from_le_bytes(b))),
            StoredDtype::Bf16 => self.each(file, tensor, out, |b| narrow(half::bf16::from_le_bytes(b).to_f32())),
            StoredDtype::F16 => self.each(file, tensor, out, |b| narrow(half::f16::from_le_bytes(b).to_f32())),
            StoredDtype::Other(other) => Err(self.unsupported(tensor.name, other)),
        }
    }

    /// Whether [`WeightFile::read`] supports a number format.
    pub(super) fn check_dtype(&self, name: &str, info: &TensorInfo) -> Result<()> {
        match &info.dtype {
            StoredDtype::F32 | StoredDtype::Bf16 | StoredDtype::F16 => Ok(()),
            StoredDtype::Other(other) => Err(self.unsupported(name, other)),
        }
    }

    fn unsupported(&self, name: &str, dtype: &str) -> Error {
        Error::Dtype { path: self.path.clone(), name: name.to_owned(), dtype: dtype.to_owned() }
    }

    fn each<T: Weight, const N: usize>(
        &self,
        file: &mut File,
        Stored { name, info, values }: Stored<'_>,
        out: &mut [T],
        convert: impl Fn([u8; N]) -> T + Sync,
    ) -> Result<()> {
        let io = spag_io::Error::io(&self.path);
        file.seek(SeekFrom::Start(info.start)).map_err(io)?;
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
