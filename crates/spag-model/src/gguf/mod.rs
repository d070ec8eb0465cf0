//! The GGUF container format of llama.cpp: metadata and a table of tensors. Their meaning is handled by checkpoints and
//! tokenizers.
//!
//! The header parser enforces limits, since files are untrusted. Reads versions 2 and 3, little-endian.

mod header;
mod metadata;
mod tensors;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use self::header::Header;
use crate::error::{Error, Result};

pub(crate) use self::header::INVALID;
pub(crate) use self::metadata::Metadata;
pub(crate) use self::tensors::Entry;

const MAGIC: [u8; 4] = *b"GGUF";
/// The default alignment of data.
const ALIGNMENT: usize = 32;
/// Maximum alignment.
const MAX_ALIGNMENT: usize = 1 << 20;

/// The header of a GGUF file.
pub(crate) struct Gguf {
    pub(crate) path: PathBuf,
    pub(crate) metadata: Metadata,
    pub(crate) tensors: BTreeMap<String, Entry>,
}

/// Whether a file has GGUF's magic number.
pub(crate) fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok_and(|()| magic == MAGIC)
}

impl Gguf {
    /// Reads and validates the header of a file.
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
        header::invalid(&self.path, reason)
    }
}
