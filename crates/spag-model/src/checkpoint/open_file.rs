//! Reads one safetensors file: the header at once, tensors one at a time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use safetensors::tensor::{Dtype, Metadata, SafeTensorError, TensorInfo};

use crate::error::{Error, Result};

/// Bytes read at a time.
const PIECE: usize = 16 << 20;
/// Bytes converted per task; a multiple of every element size, like [`PIECE`].
const SHARE: usize = 1 << 18;

/// An open file with a validated header.
pub(super) struct OpenFile {
    path: PathBuf,
    file: File,
    metadata: Metadata,
    /// Offset of the tensor data.
    data: u64,
}

impl OpenFile {
    /// Opens a file and validates its header.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let wrong = |e: SafeTensorError| Error::Safetensors { path: path.to_owned(), reason: e.to_string() };
        let mut file = File::open(path).map_err(spag_io::Error::io(path))?;
        let file_len = file.metadata().map_err(spag_io::Error::io(path))?.len();
        let mut length = [0; 8];
        if file_len < length.len() as u64 {
            return Err(wrong(SafeTensorError::HeaderTooSmall));
        }
        file.read_exact(&mut length).map_err(spag_io::Error::io(path))?;
        let header = u64::from_le_bytes(length);
        let data = header.saturating_add(length.len() as u64);
        if data > file_len {
            return Err(wrong(SafeTensorError::InvalidHeaderLength));
        }
        // Bounded by the file's length.
        let mut json = vec![0; header as usize];
        file.read_exact(&mut json).map_err(spag_io::Error::io(path))?;
        let text = std::str::from_utf8(&json).map_err(|e| wrong(SafeTensorError::InvalidHeader(e)))?;
        let metadata: Metadata =
            serde_json::from_str(text).map_err(|e| wrong(SafeTensorError::InvalidHeaderDeserialization(e)))?;
        if data + metadata.data_len() as u64 != file_len {
            return Err(wrong(SafeTensorError::MetadataIncompleteBuffer));
        }
        Ok(Self { path: path.to_owned(), file, metadata, data })
    }

    /// All tensors, sorted by name.
    pub(super) fn tensors(&self) -> Vec<(String, TensorInfo)> {
        let mut all: Vec<_> = self.metadata.tensors().into_iter().map(|(name, info)| (name, info.clone())).collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// Reads a tensor into `out`, converted to `T`. Returns `None` if its number format is not supported. Holds at most
    /// one piece of the file in memory.
    pub(super) fn read<T: Send>(
        &mut self,
        info: &TensorInfo,
        out: &mut [T],
        narrow: impl Fn(f32) -> T + Sync,
    ) -> Result<Option<()>> {
        match info.dtype {
            Dtype::F32 => self.each(info, out, |b| narrow(f32::from_le_bytes(b))),
            Dtype::BF16 => self.each(info, out, |b| narrow(half::bf16::from_le_bytes(b).to_f32())),
            Dtype::F16 => self.each(info, out, |b| narrow(half::f16::from_le_bytes(b).to_f32())),
            _ => return Ok(None),
        }
        .map(Some)
    }

    fn each<T: Send, const N: usize>(
        &mut self,
        info: &TensorInfo,
        out: &mut [T],
        convert: impl Fn([u8; N]) -> T + Sync,
    ) -> Result<()> {
        let start = self.data + info.data_offsets.0 as u64;
        self.file.seek(SeekFrom::Start(start)).map_err(spag_io::Error::io(&self.path))?;
        let mut bytes = vec![0; PIECE.min(out.len() * N)];
        for part in out.chunks_mut(PIECE / N) {
            let bytes = &mut bytes[..part.len() * N];
            self.file.read_exact(bytes).map_err(spag_io::Error::io(&self.path))?;
            part.par_chunks_mut(SHARE / N).zip(bytes.par_chunks(SHARE)).for_each(|(out, bytes)| {
                bytes.as_chunks().0.iter().zip(out).for_each(|(bytes, out)| *out = convert(*bytes));
            });
        }
        Ok(())
    }
}
