//! One safetensors file out, streamed: at no time is more than one tensor of it in the host's memory beside those that
//! are there anyway.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use half::bf16;
use rayon::prelude::*;
use safetensors::tensor::{Metadata, TensorInfo};

use super::WeightDtype;
use crate::error::{Error, Result};
use crate::ops::cpu;
use crate::params::View;

/// Gives a tensor when its turn to be written comes, by the numbers of its layer and of its view.
pub(super) type TensorAt<'a> = &'a dyn Fn(usize, usize) -> Result<Tensor>;

/// A tensor to be written: the numbers of its layer and of its view there, and the view.
pub(super) type Listed<'a> = (usize, usize, &'a View);

/// Elements that a thread converts at a time.
const SHARE: usize = 1 << 16;

/// A file as it was written, so that a reader can tell whether it is whole.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WrittenFile {
    /// Name in its folder.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// CRC-32C of all bytes.
    pub crc32c: u32,
}

impl WrittenFile {
    /// Whether the file in `dir` is what was written; where not, says how it differs.
    ///
    /// # Errors
    /// [`Error::Damaged`], or [`Error::Io`] where it cannot be read.
    pub fn check_on_disk(&self, dir: &Path) -> Result<()> {
        let path = dir.join(&self.name);
        let (mut bytes, mut crc) = (0u64, 0u32);
        in_pieces(&path, |piece| {
            crc = crc32c::crc32c_append(crc, piece);
            bytes += piece.len() as u64;
        })?;
        let damaged = |reason| Err(Error::Damaged { path: path.clone(), reason });
        if bytes != self.bytes {
            return damaged(format!("it has {bytes} bytes, {} were written", self.bytes));
        }
        if crc != self.crc32c {
            return damaged("its contents are not those that were written (CRC-32C differs)".into());
        }
        Ok(())
    }
}

/// Hands a file's contents to `each`, a piece at a time.
pub(super) fn in_pieces(path: &Path, mut each: impl FnMut(&[u8])) -> Result<()> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(Error::io(path))? {
            0 => return Ok(()),
            n => each(&buffer[..n]),
        }
    }
}

/// Counts and sums what passes through.
struct Summed<W> {
    inner: W,
    bytes: u64,
    crc: u32,
}

impl<W: Write> Write for Summed<W> {
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

/// Writes the tensors `listed` to `name` in `dir` beside its place, syncs it and renames it.
pub(super) fn write(
    dir: &Path,
    name: &str,
    listed: &[Listed<'_>],
    dtype: WeightDtype,
    tensor_at: TensorAt<'_>,
) -> Result<WrittenFile> {
    let (path, temporary) = (dir.join(name), dir.join(format!(".{name}.tmp")));
    let written = stream(&temporary, listed, dtype, tensor_at).and_then(|(bytes, crc32c)| {
        std::fs::rename(&temporary, &path).map_err(Error::io(&path))?;
        Ok(WrittenFile { name: name.to_owned(), bytes, crc32c })
    });
    if written.is_err() {
        // Best effort: the error that matters is the one being reported.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn stream(path: &Path, listed: &[Listed<'_>], dtype: WeightDtype, tensor_at: TensorAt<'_>) -> Result<(u64, u32)> {
    let io = || Error::io(path);
    let file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(io())?);
    let mut out = Summed { inner: file, bytes: 0, crc: 0 };
    let header = header(path, listed, dtype)?;
    out.write_all(&(header.len() as u64).to_le_bytes()).and_then(|()| out.write_all(&header)).map_err(io())?;
    for (layer, view, _) in listed {
        out.write_all(&little_endian(&on_host(tensor_at(*layer, *view)?)?, dtype)?).map_err(io())?;
    }
    let Summed { inner, bytes, crc } = out;
    let file = inner.into_inner().map_err(|e| io()(e.into_error()))?;
    file.sync_all().map_err(io())?;
    Ok((bytes, crc))
}

/// The JSON that names every tensor's place, padded so that the tensors are aligned.
fn header(path: &Path, listed: &[Listed<'_>], dtype: WeightDtype) -> Result<Vec<u8>> {
    let mut at = 0;
    let infos = listed.iter().map(|(_, _, view)| {
        let start = at;
        at += view.len() * dtype.bytes();
        let info = TensorInfo { dtype: dtype.safetensors(), shape: view.shape.clone(), data_offsets: (start, at) };
        (view.name.clone(), info)
    });
    // transformers refuses files without this entry.
    let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let failed = |reason: String| Error::Safetensors { path: path.to_owned(), reason };
    let metadata = Metadata::new(Some(format), infos.collect()).map_err(|e| failed(e.to_string()))?;
    let mut json = serde_json::to_vec(&metadata).map_err(|e| failed(e.to_string()))?;
    json.resize(json.len().next_multiple_of(8), b' ');
    Ok(json)
}

/// The same tensor in the host's memory.
fn on_host(tensor: Tensor) -> Result<Tensor> {
    if tensor.device().is_cpu() {
        return Ok(tensor);
    }
    // A view is copied on its device first: candle brings whole buffers over.
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
        (DType::BF16, WeightDtype::Bf16) => cpu::read_bf16(tensor, |v| Ok(each(v, |x| x.to_le_bytes())))?,
        (DType::BF16, WeightDtype::F32) => cpu::read_bf16(tensor, |v| Ok(each(v, |x| x.to_f32().to_le_bytes())))?,
        (_, WeightDtype::F32) => cpu::read(tensor, |v| Ok(each(v, |x| x.to_le_bytes())))?,
        (_, WeightDtype::Bf16) => cpu::read(tensor, |v| Ok(each(v, |x| bf16::from_f32(*x).to_le_bytes())))?,
    })
}
