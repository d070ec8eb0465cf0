//! GGUF: a checkpoint in one file, as llama.cpp has it. Its metadata become the keys of a `config.json` and the files of a
//! tokenizer, its tensors those of a weight file, so that everything else works as for a folder.
//!
//! The header is read by a parser of ours within limits, since the file is data of others. Versions 2 and 3 are read,
//! little-endian.

mod config;
mod header;
mod metadata;
mod names;
mod rope;
mod rows;
mod tensors;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use spag_io::quote;

use self::header::Header;
use self::tensors::Entry;
use super::weight_file::{Format, TensorInfo};
use crate::error::{Error, Result};

pub(crate) use self::metadata::Metadata;
pub(super) use self::rows::separate_halves;

const MAGIC: [u8; 4] = *b"GGUF";
/// Where data begin if the file does not say.
const ALIGNMENT: usize = 32;
/// Largest alignment.
const MAX_ALIGNMENT: usize = 1 << 20;

/// The header of a GGUF file.
pub(crate) struct Gguf {
    pub(crate) path: PathBuf,
    pub(crate) metadata: Metadata,
    tensors: BTreeMap<String, Entry>,
}

/// Whether a file begins as a GGUF file.
pub(crate) fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok_and(|()| magic == MAGIC)
}

impl Gguf {
    /// Reads and checks the header of a file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let io = spag_io::Error::io(path);
        let file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let mut header = Header::new(path, file, length);
        if header.left() < 4 || header.bytes()? != MAGIC {
            let what = "it does not begin as a GGUF file; a checkpoint is that or a folder";
            return Err(header.invalid(spag_io::foreign_file(path).unwrap_or(what).to_owned()));
        }
        match header.u32()? {
            2 | 3 => {}
            version if version.swap_bytes() <= 3 => {
                return Err(header.invalid("its numbers are big-endian; make it again for this machine".into()));
            }
            version => return Err(header.invalid(format!("it has version {version}; 2 and 3 are read"))),
        }
        let (tensors, keys) = (header.u64()?, header.u64()?);
        let metadata = Metadata::read(&mut header, keys)?;
        let invalid = |why| header.invalid(why);
        let alignment = metadata.size("general.alignment").map_err(invalid)?.unwrap_or(ALIGNMENT);
        if !alignment.is_power_of_two() || alignment > MAX_ALIGNMENT {
            return Err(header.invalid(format!("`general.alignment` is {alignment}; expected a power of two")));
        }
        if let Some(parts @ 2..) = metadata.size("split.count").map_err(invalid)? {
            return Err(header.invalid(format!(
                "it is one of {parts} files of a model; join them with `llama-gguf-split --merge` of llama.cpp"
            )));
        }
        let tensors = tensors::read(&mut header, tensors, alignment as u64)?;
        Ok(Self { path: path.to_owned(), metadata, tensors })
    }

    /// An error of this file.
    pub(crate) fn invalid(&self, reason: String) -> Error {
        Format::Gguf.invalid(&self.path, reason)
    }

    /// The architecture, if it is supported.
    fn architecture(&self) -> Result<&str> {
        match self.metadata.text("general.architecture").map_err(|why| self.invalid(why))? {
            Some(name @ ("llama" | "qwen2" | "qwen3")) => Ok(name),
            Some(other) => Err(self.invalid(format!(
                "architecture \"{}\" is not supported; llama (with Mistral and SmolLM2), qwen2 and qwen3 are",
                quote(other)
            ))),
            None => Err(self.invalid("it has no `general.architecture`".into())),
        }
    }

    /// The tensors under the names of Hugging Face.
    pub(super) fn weights(&self) -> Result<BTreeMap<String, TensorInfo>> {
        let mut weights = BTreeMap::new();
        for (name, Entry { dtype, shape, start, .. }) in &self.tensors {
            if name == names::ROPE_FREQS {
                continue;
            }
            let rows = names::row_order(self, name, shape.first().copied().unwrap_or(1))?;
            let info = TensorInfo { dtype: dtype.clone(), shape: shape.clone(), start: *start, rows };
            let other = names::hugging_face(name);
            if weights.insert(other.clone(), info).is_some() {
                return Err(self.invalid(format!("tensor `{}` is there under two names", quote(&other))));
            }
        }
        Ok(weights)
    }
}
