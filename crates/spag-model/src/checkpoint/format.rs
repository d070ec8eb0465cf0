//! Formats of weight files, and where tensors are in them.

use std::path::Path;

use crate::dtype::StoredDtype;
use crate::error::Error;
use crate::gguf;

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

    /// The error of a file of this format.
    pub(super) fn invalid(self, path: &Path, reason: String) -> Error {
        let what = match self {
            Self::Safetensors => "not a valid safetensors file",
            Self::Torch => "not a PyTorch file of weights",
            Self::Gguf => gguf::INVALID,
        };
        Error::WeightFile { path: path.to_owned(), what, reason }
    }

    /// The number formats that are read, for messages.
    pub(super) fn dtypes(self) -> &'static str {
        match self {
            Self::Safetensors | Self::Torch => "F32, F16 and BF16",
            Self::Gguf => "F32, F16, BF16, Q4_0 to Q8_1 and the K-quants Q2_K to Q8_K",
        }
    }
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
