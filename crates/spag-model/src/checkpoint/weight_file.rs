//! One file of weights, of any format: its header, read and checked at once, and its tensors, read one at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::gguf::{self, Block, WithBlocks};
use super::{safetensors, torch};
use crate::error::{Error, Result};

/// Bytes read at a time, at most.
const PIECE: usize = 16 << 20;
/// Bytes converted per task, at most.
const SHARE: usize = 1 << 18;

/// A format of weight files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Of the safetensors library.
    Safetensors,
    /// Of `torch.save`.
    Torch,
    /// Of llama.cpp.
    Gguf,
}

impl Format {
    /// The end of a file's name.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Safetensors => ".safetensors",
            Self::Torch => ".bin",
            Self::Gguf => ".gguf",
        }
    }

    fn invalid(self, path: &Path, reason: String) -> Error {
        let path = path.to_owned();
        match self {
            Self::Safetensors => Error::Safetensors { path, reason },
            Self::Torch => Error::Torch { path, reason },
            Self::Gguf => Error::Gguf { path, reason },
        }
    }

    /// The number formats that are read, for messages.
    fn dtypes(self) -> &'static str {
        match self {
            Self::Safetensors | Self::Torch => "F32, F16 and BF16",
            Self::Gguf => "F32, F16, BF16, Q4_0 to Q8_1 and the K-quants Q2_K to Q8_K",
        }
    }
}

/// A file with a valid header.
pub(super) struct WeightFile {
    pub(super) path: PathBuf,
    format: Format,
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
    pub(super) rows: RowOrder,
}

/// The order of a stored tensor's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// As they are used.
    AsUsed,
    /// The rows of the first half of each head alternate with those of the second.
    Interleaved {
        /// Rows of a head.
        head: usize,
    },
}

/// Number format of a stored tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoredDtype {
    F32,
    F16,
    Bf16,
    /// Quantised, in blocks; rows are whole blocks.
    Block(Block),
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
            Format::Gguf => gguf::tensors(path, file, length)?,
        };
        Ok(Self { path: path.to_owned(), format, tensors })
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
    /// memory, and of tensors whose rows are reordered one head per thread.
    pub(super) fn read<T: Weight>(
        &self,
        file: &mut File,
        tensor: Stored<'_>,
        out: &mut [T],
        narrow: impl Fn(f32) -> T + Sync,
    ) -> Result<()> {
        let mut reading = Reading { from: self, file, tensor, out, narrow };
        match &tensor.info.dtype {
            StoredDtype::F32 => reading.with(|b, [x]: &mut [f32; 1]| *x = f32::from_le_bytes(*b)),
            StoredDtype::Bf16 => reading.with(|b, [x]: &mut [f32; 1]| *x = half::bf16::from_le_bytes(*b).to_f32()),
            StoredDtype::F16 => reading.with(|b, [x]: &mut [f32; 1]| *x = half::f16::from_le_bytes(*b).to_f32()),
            StoredDtype::Block(block) => block.dispatch(&mut reading),
            StoredDtype::Other(other) => Err(self.unsupported(tensor.name, other)),
        }?;
        if let RowOrder::Interleaved { head } = tensor.info.rows {
            gguf::separate_halves(reading.out, head, tensor.info.shape.iter().skip(1).product());
        }
        Ok(())
    }

    /// Whether [`WeightFile::read`] supports a number format.
    pub(super) fn check_dtype(&self, name: &str, info: &TensorInfo) -> Result<()> {
        match &info.dtype {
            StoredDtype::F32 | StoredDtype::Bf16 | StoredDtype::F16 | StoredDtype::Block(_) => Ok(()),
            StoredDtype::Other(other) => Err(self.unsupported(name, other)),
        }
    }

    fn unsupported(&self, name: &str, dtype: &str) -> Error {
        let (path, name, dtype) = (self.path.clone(), name.to_owned(), dtype.to_owned());
        Error::Dtype { path, name, dtype, supported: self.format.dtypes() }
    }
}

/// A tensor that is being read.
struct Reading<'a, T, F> {
    from: &'a WeightFile,
    file: &'a mut File,
    tensor: Stored<'a>,
    out: &'a mut [T],
    narrow: F,
}

impl<T: Weight, F: Fn(f32) -> T + Sync> WithBlocks for &mut Reading<'_, T, F> {
    type Output = Result<()>;

    /// Reads blocks of `B` numbers in `N` bytes; numbers that are stored as they are make blocks of one.
    fn with<const N: usize, const B: usize>(self, read: impl Fn(&[u8; N], &mut [f32; B]) + Sync) -> Result<()> {
        let Stored { name, info, values } = self.tensor;
        let io = spag_io::Error::io(&self.from.path);
        self.file.seek(SeekFrom::Start(info.start)).map_err(io)?;
        let (piece_len, share_len) = (PIECE / N * B, SHARE / N * B);
        let mut bytes = vec![0; self.out.len().min(piece_len) / B * N];
        for (piece, part) in self.out.chunks_mut(piece_len).enumerate() {
            let bytes = &mut bytes[..part.len() / B * N];
            self.file.read_exact(bytes).map_err(io)?;
            // Found in the same pass: it costs less than reading the memory once more.
            let shares = part.par_chunks_mut(share_len).zip(bytes.par_chunks(share_len / B * N));
            let finite = shares.map(|(out, bytes)| {
                let mut finite = true;
                out.as_chunks_mut::<B>().0.iter_mut().zip(bytes.as_chunks::<N>().0).for_each(|(out, bytes)| {
                    let mut block = [0.0; B];
                    read(bytes, &mut block);
                    for (out, value) in out.iter_mut().zip(block) {
                        *out = (self.narrow)(value);
                        finite &= out.is_finite();
                    }
                });
                finite
            });
            if finite.reduce(|| true, |one, other| one & other) || values == Values::Any {
                continue;
            }
            let index = piece * piece_len + part.iter().position(|value| !value.is_finite()).unwrap_or(0);
            return Err(Error::NotFinite { path: self.from.path.clone(), name: name.to_owned(), index });
        }
        Ok(())
    }
}
