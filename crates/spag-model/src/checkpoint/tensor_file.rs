//! Writes one safetensors file, one tensor at a time.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use half::bf16;
use rayon::prelude::*;
use safetensors::tensor::{Metadata, TensorInfo};
use spag_io::AtomicFile;

use super::format::Format;
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use crate::params::View;
use spag_ops::cpu::{self, Stored};

/// Provides a tensor, given the indices of its layer and view.
pub(super) type TensorProvider<'a> = &'a dyn Fn(usize, usize) -> Result<Tensor>;

/// A tensor to write: indices of its layer and view, and the view.
pub(super) type TensorEntry<'a> = (usize, usize, &'a View);

/// Elements converted per task.
const SHARE: usize = 1 << 16;

/// Name, size and checksum of a written file, to detect damage.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WrittenFile {
    /// File name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// CRC-32C of all bytes.
    pub crc32c: u32,
}

impl WrittenFile {
    /// Checks that the file in `dir` has the recorded size and checksum.
    ///
    /// # Errors
    /// [`Error::Damaged`], or [`Error::File`] if the file cannot be read.
    pub fn check_on_disk(&self, dir: &Path) -> Result<()> {
        let path = dir.join(&self.name);
        let (mut bytes, mut crc) = (0u64, 0u32);
        read_chunks(&path, |chunk| {
            crc = crc32c::crc32c_append(crc, chunk);
            bytes += chunk.len() as u64;
        })?;
        let damaged = |reason| Err(Error::Damaged { path: path.clone(), reason });
        if bytes != self.bytes {
            return damaged(format!("it has {bytes} bytes instead of {}", self.bytes));
        }
        if crc != self.crc32c {
            return damaged("its contents differ from what was written (CRC-32C mismatch)".into());
        }
        Ok(())
    }
}

/// Reads a file in chunks and passes them to `each`.
pub(super) fn read_chunks(path: &Path, mut each: impl FnMut(&[u8])) -> Result<()> {
    let mut file = File::open(path).map_err(spag_io::Error::io(path))?;
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(spag_io::Error::io(path))? {
            0 => return Ok(()),
            n => each(&buffer[..n]),
        }
    }
}

/// Counts the bytes written and computes their CRC-32C.
struct Checksummed<W> {
    inner: W,
    bytes: u64,
    crc: u32,
}

impl<W: Write> Write for Checksummed<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(data)?;
        self.crc = crc32c::crc32c_append(self.crc, &data[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Writes the tensors `entries` to `name` in `dir`, atomically.
pub(super) fn write(
    dir: &Path,
    name: &str,
    entries: &[TensorEntry<'_>],
    dtype: WeightDtype,
    tensors: TensorProvider<'_>,
) -> Result<WrittenFile> {
    let path = dir.join(name);
    let header = header(&path, entries, dtype)?;
    let mut out = Checksummed { inner: AtomicFile::create(&path)?, bytes: 0, crc: 0 };
    let io = spag_io::Error::io(&path);
    out.write_all(&(header.len() as u64).to_le_bytes()).and_then(|()| out.write_all(&header)).map_err(io)?;
    for (layer, view, _) in entries {
        out.write_all(&little_endian(&on_host(tensors(*layer, *view)?)?, dtype)?).map_err(io)?;
    }
    let Checksummed { inner, bytes, crc } = out;
    inner.commit()?;
    Ok(WrittenFile { name: name.to_owned(), bytes, crc32c: crc })
}

/// The JSON header, padded so that the tensors are aligned.
fn header(path: &Path, entries: &[TensorEntry<'_>], dtype: WeightDtype) -> Result<Vec<u8>> {
    let mut at = 0;
    let infos = entries.iter().map(|(_, _, view)| {
        let start = at;
        at += view.len() * dtype.bytes();
        let info = TensorInfo { dtype: dtype.safetensors(), shape: view.shape.clone(), data_offsets: (start, at) };
        (view.name.clone(), info)
    });
    // transformers rejects files without this entry.
    let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let failed = |reason: String| Format::Safetensors.invalid(path, reason);
    let metadata = Metadata::new(Some(format), infos.collect()).map_err(|e| failed(e.to_string()))?;
    let mut json = serde_json::to_vec(&metadata).map_err(|e| failed(e.to_string()))?;
    json.resize(json.len().next_multiple_of(8), b' ');
    Ok(json)
}

/// Copies a tensor to host memory.
fn on_host(tensor: Tensor) -> Result<Tensor> {
    if tensor.device().is_cpu() {
        return Ok(tensor);
    }
    // Copied on the device first: candle downloads whole buffers.
    let alone = Tensor::zeros(tensor.elem_count(), tensor.dtype(), tensor.device())?;
    alone.slice_set(&tensor.flatten_all()?, 0, 0)?;
    Ok(alone.to_device(&Device::Cpu)?)
}

fn little_endian(tensor: &Tensor, dtype: WeightDtype) -> Result<Vec<u8>> {
    fn each<T: Sync, const N: usize>(values: &[T], write: impl Fn(&T) -> [u8; N] + Sync) -> Vec<u8> {
        let mut bytes = vec![0; values.len() * N];
        bytes.par_chunks_mut(SHARE * N).zip(values.par_chunks(SHARE)).for_each(|(bytes, values)| {
            bytes.as_chunks_mut().0.iter_mut().zip(values).for_each(|(bytes, value)| *bytes = write(value));
        });
        bytes
    }
    Ok(match (tensor.dtype(), dtype) {
        (DType::BF16, WeightDtype::Bf16) => bf16::read(tensor, |v| Ok(each(v, |x| x.to_le_bytes())))?,
        (DType::BF16, WeightDtype::F32) => bf16::read(tensor, |v| Ok(each(v, |x| x.to_f32().to_le_bytes())))?,
        (_, WeightDtype::F32) => cpu::read(tensor, |v| Ok(each(v, |x| x.to_le_bytes())))?,
        (_, WeightDtype::Bf16) => cpu::read(tensor, |v| Ok(each(v, |x| bf16::from_f32(*x).to_le_bytes())))?,
    })
}
