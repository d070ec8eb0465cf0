//! A weight file of any format: its header is validated on opening, and its tensors are read one at a time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use candle_core::WithDType;
use candle_core::quantized::GgmlDType;
use half::bf16;
use rayon::prelude::*;

use super::format::{Format, RowOrder, TensorInfo};
use super::rows::separate_halves;
use super::{safetensors, torch};
use crate::dtype::StoredDtype;
use crate::error::{Error, Result};
use crate::gguf::Gguf;

/// Maximum bytes read at a time.
const PIECE: usize = 16 << 20;
/// Maximum bytes converted per task.
const SHARE: usize = 1 << 16;

/// A file with a valid header.
pub(super) struct WeightFile {
    pub(super) path: PathBuf,
    format: Format,
    /// Sorted by name, so that the same one of several errors is always reported.
    pub(super) tensors: BTreeMap<String, TensorInfo>,
}

/// A tensor of a file.
#[derive(Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) name: &'a str,
    pub(super) info: &'a TensorInfo,
    pub(super) values: Values,
}

/// Requirements on the values of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// Weights: NaN and infinity are errors.
    Finite,
    /// Optimizer moments, which may overflow.
    Any,
}

/// A number format of weights in memory.
pub(super) trait Weight: WithDType {
    fn rounded(number: f32) -> Self;
}

impl Weight for f32 {
    fn rounded(number: f32) -> Self {
        number
    }
}

impl Weight for bf16 {
    fn rounded(number: f32) -> Self {
        Self::from_f32(number)
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
            Format::Safetensors => safetensors::tensors(path, file, length),
            Format::Torch => torch::tensors(path, file, length),
            Format::Gguf => Gguf::open(path).and_then(|file| file.weights()),
        };
        let tensors = tensors.map_err(|error| match spag_io::foreign_file(path) {
            Some(what) => format.invalid(path, what.to_owned()),
            None => error,
        })?;
        Ok(Self { path: path.to_owned(), format, tensors })
    }

    /// Reads a tensor of a supported number format into `out`, converted to `T`. Uses memory for at most one piece of
    /// the file, the numbers of one share per thread, and one head per thread if rows are reordered.
    pub(super) fn read<T: Weight>(&self, file: &mut File, tensor: Stored<'_>, out: &mut [T]) -> Result<()> {
        let Stored { name, info, values } = tensor;
        let io = spag_io::Error::io(&self.path);
        let format = self.check_dtype(name, info)?;
        file.seek(SeekFrom::Start(info.start)).map_err(io)?;
        let (elements, size) = (format.block_size(), format.type_size());
        let (piece_len, share_len) = (PIECE / size * elements, SHARE / size * elements);
        // Words, because candle reads blocks in place.
        let mut words = vec![0u32; (out.len().min(piece_len) / elements * size).div_ceil(4)];
        for (piece, part) in out.chunks_mut(piece_len).enumerate() {
            let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..part.len() / elements * size];
            file.read_exact(bytes).map_err(io)?;
            // Checked in the same pass, which costs less than reading the memory again.
            let shares = part.par_chunks_mut(share_len).zip(bytes.par_chunks(share_len / elements * size));
            let finite = shares.map(|(out, bytes)| {
                let numbers = format.from_data(bytes.into()).dequantize(out.len())?;
                let numbers = numbers.as_slice::<f32>()?;
                // Adding 0 would change the sign of −0.
                let added = |number: f32| if info.addend == 0.0 { number } else { number + info.addend };
                out.iter_mut().zip(numbers).for_each(|(out, number)| *out = T::rounded(added(*number)));
                // Without an early exit, so that it is vectorised.
                Ok::<_, Error>(out.iter().fold(true, |finite, number| finite & number.to_f64().is_finite()))
            });
            if finite.try_reduce(|| true, |one, other| Ok(one & other))? || values == Values::Any {
                continue;
            }
            let index = piece * piece_len + part.iter().position(|value| !value.to_f64().is_finite()).unwrap_or(0);
            return Err(Error::NotFinite { path: self.path.clone(), name: name.to_owned(), index });
        }
        if let RowOrder::Interleaved { head } = info.rows {
            separate_halves(out, head, info.shape.iter().skip(1).product());
        }
        Ok(())
    }

    /// Reads a matrix without converting it, with its rows in the model's order.
    pub(super) fn read_blocks(&self, file: &mut File, tensor: Stored<'_>) -> Result<Vec<u8>> {
        let Stored { name, info, .. } = tensor;
        let io = spag_io::Error::io(&self.path);
        let format = self.check_dtype(name, info)?;
        let row = info.shape.iter().skip(1).product::<usize>() / format.block_size() * format.type_size();
        let mut bytes = vec![0; info.shape.first().copied().unwrap_or(1) * row];
        file.seek(SeekFrom::Start(info.start)).map_err(io)?;
        file.read_exact(&mut bytes).map_err(io)?;
        if let RowOrder::Interleaved { head } = info.rows {
            separate_halves(&mut bytes, head, row);
        }
        Ok(bytes)
    }

    /// The number format of a tensor, if [`WeightFile::read`] supports it.
    pub(super) fn check_dtype(&self, name: &str, info: &TensorInfo) -> Result<GgmlDType> {
        match &info.dtype {
            StoredDtype::Read(format) => Ok(*format),
            StoredDtype::Other(other) => {
                let (path, name, dtype) = (self.path.clone(), name.to_owned(), other.clone());
                Err(Error::Dtype { path, name, dtype, supported: self.format.dtypes() })
            }
        }
    }
}
