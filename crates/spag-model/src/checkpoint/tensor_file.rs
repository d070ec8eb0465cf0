//! One safetensors file out, streamed: at no time is more than one tensor's bytes in memory beside the tensors.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use candle_core::{DType, Tensor};
use half::bf16;
use safetensors::tensor::{Metadata, TensorInfo};

use super::WeightDtype;
use crate::error::{Error, Result};
use crate::ops::cpu;

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

/// Writes `tensors` to `name` in `dir` beside its place, syncs it and renames it.
pub(super) fn write(dir: &Path, name: &str, tensors: &[(String, Tensor)], dtype: WeightDtype) -> Result<WrittenFile> {
    let (path, temporary) = (dir.join(name), dir.join(format!(".{name}.tmp")));
    let written = stream(&temporary, tensors, dtype).and_then(|(bytes, crc32c)| {
        std::fs::rename(&temporary, &path).map_err(Error::io(&path))?;
        Ok(WrittenFile { name: name.to_owned(), bytes, crc32c })
    });
    if written.is_err() {
        // Best effort: the error that matters is the one being reported.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

fn stream(path: &Path, tensors: &[(String, Tensor)], dtype: WeightDtype) -> Result<(u64, u32)> {
    let io = || Error::io(path);
    let file = BufWriter::with_capacity(1 << 20, File::create(path).map_err(io())?);
    let mut out = Summed { inner: file, bytes: 0, crc: 0 };
    let header = header(path, tensors, dtype)?;
    out.write_all(&(header.len() as u64).to_le_bytes()).and_then(|()| out.write_all(&header)).map_err(io())?;
    for (_, tensor) in tensors {
        out.write_all(&little_endian(tensor, dtype)?).map_err(io())?;
    }
    let Summed { inner, bytes, crc } = out;
    let file = inner.into_inner().map_err(|e| io()(e.into_error()))?;
    file.sync_all().map_err(io())?;
    Ok((bytes, crc))
}

/// The JSON that names every tensor's place, padded so that the tensors are aligned.
fn header(path: &Path, tensors: &[(String, Tensor)], dtype: WeightDtype) -> Result<Vec<u8>> {
    let mut at = 0;
    let infos = tensors.iter().map(|(name, tensor)| {
        let start = at;
        at += tensor.elem_count() * dtype.bytes();
        let info = TensorInfo { dtype: dtype.safetensors(), shape: tensor.dims().to_vec(), data_offsets: (start, at) };
        (name.clone(), info)
    });
    // transformers refuses files without this entry.
    let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let failed = |reason: String| Error::Safetensors { path: path.to_owned(), reason };
    let metadata = Metadata::new(Some(format), infos.collect()).map_err(|e| failed(e.to_string()))?;
    let mut json = serde_json::to_vec(&metadata).map_err(|e| failed(e.to_string()))?;
    json.resize(json.len().next_multiple_of(8), b' ');
    Ok(json)
}

fn little_endian(tensor: &Tensor, dtype: WeightDtype) -> Result<Vec<u8>> {
    fn each<T, const N: usize>(values: &[T], write: impl Fn(&T) -> [u8; N]) -> Vec<u8> {
        let mut bytes = vec![0; values.len() * N];
        bytes.as_chunks_mut().0.iter_mut().zip(values).for_each(|(bytes, value)| *bytes = write(value));
        bytes
    }
    Ok(match (tensor.dtype(), dtype) {
        (DType::BF16, WeightDtype::Bf16) => cpu::read_bf16(tensor, |v| Ok(each(v, |x| x.to_le_bytes())))?,
        (DType::BF16, WeightDtype::F32) => cpu::read_bf16(tensor, |v| Ok(each(v, |x| x.to_f32().to_le_bytes())))?,
        (_, WeightDtype::F32) => cpu::read(tensor, |v| Ok(each(v, |x| x.to_le_bytes())))?,
        (_, WeightDtype::Bf16) => cpu::read(tensor, |v| Ok(each(v, |x| bf16::from_f32(*x).to_le_bytes())))?,
    })
}
