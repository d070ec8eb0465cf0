//! Weights in PyTorch's format (`pytorch_model.bin`): a zip archive with a pickle and an entry per storage.
//!
//! The pickle is interpreted by a machine that supports only dictionaries and tensors, and never executes code. It
//! yields the file location of each tensor's bytes, which are then read as in a safetensors file.

mod archive;
mod pickle;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry::Vacant;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use candle_core::quantized::GgmlDType;
use spag_io::quote;

use self::archive::{Archive, Place};
use self::pickle::PickledTensor;
use super::format::{Format, RowOrder, TensorInfo};
use crate::dtype::StoredDtype;
use crate::error::Result;

/// Maximum bytes of the pickle. It contains no weights, only a few hundred bytes per tensor.
const MAX_PICKLE: u64 = 4 << 20;
const PICKLE: &str = "data.pkl";

/// Reads the tensors of a file of `length` bytes.
pub(super) fn tensors(path: &Path, mut file: File, length: u64) -> Result<BTreeMap<String, TensorInfo>> {
    let mut magic = Vec::new();
    (&mut file).take(4).read_to_end(&mut magic).map_err(spag_io::Error::io(path))?;
    if magic != b"PK\x03\x04" {
        return Err(Format::Torch.invalid(path, other_format(&magic)));
    }
    let archive = Archive::open(path.to_owned(), file, length)?;
    let folder = folder(&archive)?;
    let byte_order = format!("{folder}byteorder");
    // Older files lack the entry; they were written on little-endian machines.
    if archive.names().any(|name| name == byte_order) && archive.contents(&byte_order, 64)? != b"little" {
        return Err(archive.invalid("its numbers are not little-endian; save it again on another machine"));
    }
    let bytes = archive.contents(&format!("{folder}{PICKLE}"), MAX_PICKLE)?;
    let pickled = pickle::state_dict(&bytes).map_err(|reason| archive.invalid(&reason))?;
    let mut places = BTreeMap::new();
    for (_, tensor) in &pickled {
        let name = format!("{folder}data/{}", tensor.storage.key);
        if let Vacant(entry) = places.entry(tensor.storage.key) {
            entry.insert(archive.place(&name)?);
        }
    }
    check_apart(&archive, places.values().chain([&archive.place(&format!("{folder}{PICKLE}"))?]))?;
    let mut tensors = BTreeMap::new();
    for (name, tensor) in &pickled {
        let fail = |reason: String| archive.invalid(&format!("tensor `{}` {reason}", quote(name)));
        let Some(Place { data, .. }) = places.get(tensor.storage.key) else { continue };
        let info = located(tensor, data.start, data.end).map_err(fail)?;
        if tensors.insert((*name).to_owned(), info).is_some() {
            return Err(fail("is there twice".into()));
        }
    }
    Ok(tensors)
}

/// The format of a file that is not a zip archive.
fn other_format(magic: &[u8]) -> String {
    match magic {
        // A protocol 2 pickle that starts with a long: torch.save before 1.6.
        [0x80, 2, 0x8a, ..] => "this is the format of PyTorch before 1.6; save it again with a newer one: \
                                torch.save(torch.load(FILE, map_location=\"cpu\", weights_only=True), FILE)"
            .into(),
        _ => "it does not begin as a zip archive; torch.save of PyTorch 1.6 or newer writes one".into(),
    }
}

/// The archive's top-level folder, with its slash.
fn folder(archive: &Archive) -> Result<String> {
    let mut found = archive.names().filter_map(|name| name.strip_suffix(PICKLE));
    match (found.next(), found.next()) {
        (Some(folder), None) if folder.ends_with('/') => Ok(folder.to_owned()),
        (Some(_), Some(_)) => Err(archive.invalid("it has more than one data.pkl")),
        _ => Err(archive.invalid("it has no entry that ends in /data.pkl")),
    }
}

/// Refuses entries that overlap.
fn check_apart<'a>(archive: &Archive, places: impl Iterator<Item = &'a Place>) -> Result<()> {
    let mut all: Vec<(u64, u64)> = places.map(|place| (place.header, place.data.end)).collect();
    all.sort_unstable();
    match all.windows(2).find(|pair| matches!(pair, [(_, end), (start, _)] if start < end)) {
        Some(pair) => Err(archive.invalid(&format!("entries overlap at byte {}", pair[1].0))),
        None => Ok(()),
    }
}

/// Validates a tensor against its storage, whose bytes are at `start..end`.
fn located(tensor: &PickledTensor<'_>, start: u64, end: u64) -> std::result::Result<TensorInfo, String> {
    let dtype = number_format(tensor);
    let PickledTensor { storage, offset, shape, strides, .. } = tensor;
    let count = shape.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
    let too_large = || format!("has a shape of too many elements: {shape:?}");
    let count = count.ok_or_else(too_large)?;
    let sizes = shape.iter().map(|size| usize::try_from(*size).map_err(|_| too_large()));
    let shape = sizes.collect::<std::result::Result<Vec<_>, _>>()?;
    if strides.len() != shape.len() {
        return Err(format!("has {} sizes and {} strides", shape.len(), strides.len()));
    }
    if !is_contiguous(&tensor.shape, strides) {
        return Err(format!(
            "is not contiguous (shape {shape:?}, strides {strides:?}); save it again after .contiguous()"
        ));
    }
    // The element size of other formats does not matter: such tensors are not read.
    let mut first = start;
    if let StoredDtype::Read(format) = dtype {
        let size = format.type_size() as u64;
        let needed = offset.checked_add(count).ok_or_else(too_large)?;
        let held = (end - start) / size;
        // The length of an untyped storage is in bytes.
        let stated = if storage.kind == UNTYPED { storage.len / size } else { storage.len };
        if needed > held.min(stated) {
            return Err(format!(
                "needs {needed} elements of storage {}, which has {}",
                quote(storage.key),
                held.min(stated)
            ));
        }
        first = start.saturating_add(offset.saturating_mul(size));
    }
    Ok(TensorInfo { dtype, shape, start: first, rows: RowOrder::AsUsed, addend: 0.0 })
}

const UNTYPED: &str = "UntypedStorage";

fn number_format(tensor: &PickledTensor<'_>) -> StoredDtype {
    StoredDtype::Read(match (tensor.dtype, tensor.storage.kind) {
        (None, "FloatStorage") | (Some("float32"), "FloatStorage" | UNTYPED) => GgmlDType::F32,
        (None, "HalfStorage") | (Some("float16"), "HalfStorage" | UNTYPED) => GgmlDType::F16,
        (None, "BFloat16Storage") | (Some("bfloat16"), "BFloat16Storage" | UNTYPED) => GgmlDType::BF16,
        (dtype, kind) => return StoredDtype::Other(format!("torch.{}", quote(dtype.unwrap_or(kind)))),
    })
}

/// Whether elements are contiguous in row-major order. Strides of dimensions of size one are ignored.
fn is_contiguous(shape: &[u64], strides: &[u64]) -> bool {
    let mut expected = Some(1u64);
    shape.contains(&0)
        || shape.iter().zip(strides).rev().all(|(size, stride)| {
            let follows = *size == 1 || Some(*stride) == expected;
            expected = expected.and_then(|stride| stride.checked_mul(*size));
            follows
        })
}
