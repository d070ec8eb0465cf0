//! Weight file formats, and the location of tensors in them.

use std::path::Path;

use crate::dtype::StoredDtype;
use crate::error::Error;
use crate::gguf;

/// A format of weight files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// The safetensors library's format.
    Safetensors,
    /// `torch.save`'s format.
    Torch,
    /// llama.cpp's format.
    Gguf,
}

impl Format {
    /// The file name extension.
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

    /// The supported number formats, for messages.
    pub(super) fn dtypes(self) -> &'static str {
        match self {
            Self::Safetensors | Self::Torch => "F32, F16 and BF16",
            Self::Gguf => "F32, F16, BF16, Q4_0 to Q8_1 and the K-quants Q2_K to Q8_K",
        }
    }
}

/// The location of a tensor in its file: little-endian elements, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TensorInfo {
    pub(super) dtype: StoredDtype,
    pub(super) shape: Vec<usize>,
    /// Byte offset in the file.
    pub(super) start: u64,
    pub(super) rows: RowOrder,
    /// Added to every number.
    pub(super) addend: f32,
}

/// The row order of a stored tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOrder {
    /// In the model's order.
    AsUsed,
    /// Rows of the first half of each head alternate with those of the second half.
    Interleaved {
        /// Rows per head.
        head: usize,
    },
}
