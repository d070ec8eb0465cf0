//! Separate output heads in folders whose configuration ties the head to the embedding. As in transformers 5, the separate head
//! is used: older versions of PEFT and transformers wrote it without changing the configuration.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::weight_files::{Located, MODEL, WeightFiles};
use crate::config::ModelConfig;
use crate::error::Result;
use crate::params::names::{EMBEDDING, HEAD};

/// Bytes compared at a time.
const PIECE: usize = 1 << 20;

/// Whether `config` ties the head to the embedding, but `dir` contains a head with other weights.
///
/// # Errors
/// The tensors cannot be read.
pub(super) fn has_own_head(dir: &Path, config: &ModelConfig) -> Result<bool> {
    if !config.architecture.is_tied() {
        return Ok(false);
    }
    // Folders without weights have a configuration too. Damaged weights are reported when they are read.
    let Ok(files) = WeightFiles::open(dir, MODEL) else { return Ok(false) };
    let find = |name: &str| files.find(&format!("{}{name}", config.architecture.modalities.prefix()));
    match (find(HEAD), find(EMBEDDING)) {
        (Some(head), Some(embedding)) => differs(&head, &embedding),
        _ => Ok(false),
    }
}

/// Whether two tensors differ in their format, shape or bytes.
fn differs(a: &Located<'_>, b: &Located<'_>) -> Result<bool> {
    if (&a.info().dtype, &a.info().shape) != (&b.info().dtype, &b.info().shape) {
        return Ok(true);
    }
    let open = |tensor: &Located<'_>| {
        let path = &tensor.file.path;
        let mut file = File::open(path).map_err(spag_io::Error::io(path))?;
        file.seek(SeekFrom::Start(tensor.info().start)).map_err(spag_io::Error::io(path))?;
        Ok::<_, spag_io::Error>(file.take(tensor.bytes()))
    };
    let (mut first, mut second) = (open(a)?, open(b)?);
    let (mut left, mut right) = (Vec::with_capacity(PIECE), Vec::with_capacity(PIECE));
    loop {
        left.clear();
        right.clear();
        let piece = PIECE as u64;
        first.by_ref().take(piece).read_to_end(&mut left).map_err(spag_io::Error::io(&a.file.path))?;
        second.by_ref().take(piece).read_to_end(&mut right).map_err(spag_io::Error::io(&b.file.path))?;
        if left != right || left.is_empty() {
            return Ok(left != right);
        }
    }
}
