//! Parses the header of a safetensors file.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use candle_core::quantized::GgmlDType;
use safetensors::tensor::{Dtype, Metadata, SafeTensorError};
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use spag_io::quote;

use super::format::{Format, RowOrder, TensorInfo};
use crate::dtype::StoredDtype;
use crate::error::Result;

/// Maximum bytes of a header, as in the safetensors library.
const MAX_HEADER: u64 = 100_000_000;

/// Parses and validates the header of a file of `length_of_file` bytes.
pub(super) fn tensors(path: &Path, mut file: File, length_of_file: u64) -> Result<BTreeMap<String, TensorInfo>> {
    let wrong = |e: SafeTensorError| Format::Safetensors.invalid(path, quote(&e.to_string()));
    let io = spag_io::Error::io(path);
    let mut length = [0; 8];
    if length_of_file < length.len() as u64 {
        return Err(wrong(SafeTensorError::HeaderTooSmall));
    }
    file.read_exact(&mut length).map_err(io)?;
    let header = u64::from_le_bytes(length);
    let data = header.saturating_add(length.len() as u64);
    if data > length_of_file {
        return Err(wrong(SafeTensorError::InvalidHeaderLength));
    }
    if header > MAX_HEADER {
        return Err(wrong(SafeTensorError::HeaderTooLarge));
    }
    let mut json = vec![0; header as usize];
    file.read_exact(&mut json).map_err(io)?;
    let text = std::str::from_utf8(&json).map_err(|e| wrong(SafeTensorError::InvalidHeader(e)))?;
    let invalid = |e: serde_json::Error| wrong(SafeTensorError::InvalidHeaderDeserialization(e));
    serde_json::Deserializer::from_str(text).deserialize_map(UniqueNames).map_err(invalid)?;
    let metadata: Metadata = serde_json::from_str(text).map_err(invalid)?;
    if data.checked_add(metadata.data_len() as u64) != Some(length_of_file) {
        return Err(wrong(SafeTensorError::MetadataIncompleteBuffer));
    }
    let located = |(name, info): (String, &safetensors::tensor::TensorInfo)| {
        let dtype = match info.dtype {
            Dtype::F32 => StoredDtype::Read(GgmlDType::F32),
            Dtype::F16 => StoredDtype::Read(GgmlDType::F16),
            Dtype::BF16 => StoredDtype::Read(GgmlDType::BF16),
            other => StoredDtype::Other(format!("{other:?}")),
        };
        let start = data + info.data_offsets.0 as u64;
        (name, TensorInfo { dtype, shape: info.shape.clone(), start, rows: RowOrder::AsUsed, addend: 0.0 })
    };
    Ok(metadata.tensors().into_iter().map(located).collect())
}

/// A JSON object with unique keys. The library would silently use the last duplicate.
struct UniqueNames;

impl<'de> Visitor<'de> for UniqueNames {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some((name, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
            if seen.contains(&name) {
                return Err(A::Error::custom(format_args!("tensor `{}` is there twice", quote(&name))));
            }
            seen.insert(name);
        }
        Ok(())
    }
}
