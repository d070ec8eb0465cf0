//! The table of tensors of a GGUF file.

use std::collections::BTreeMap;

use spag_io::quote;

use super::block::Block;
use super::header::Header;
use crate::checkpoint::weight_file::StoredDtype;
use crate::error::Result;

/// Tensors, at most. The largest models that are supported have some 200 thousand.
const MAX_TENSORS: u64 = 1 << 18;
/// Bytes of a name, at most. ggml writes at most 64.
const MAX_NAME: usize = 256;
/// Dimensions, at most, as in ggml.
const MAX_DIMENSIONS: u32 = 4;

/// Where a tensor is in the file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) dtype: StoredDtype,
    /// The last index is the fastest, as everywhere here; the file has it first.
    pub(super) shape: Vec<usize>,
    /// Offset of its first byte in the file.
    pub(super) start: u64,
    /// Offset of the byte after its last; `None` if its number format is not read.
    end: Option<u64>,
}

/// Reads `count` entries, and checks them against the file. Their data begin at the next multiple of `alignment`.
pub(super) fn read(header: &mut Header, count: u64, alignment: u64) -> Result<BTreeMap<String, Entry>> {
    if count > MAX_TENSORS {
        return Err(header.invalid(format!("it has {count} tensors; at most {MAX_TENSORS} are read")));
    }
    let mut tensors = BTreeMap::new();
    for _ in 0..count {
        let name = header.text()?;
        if name.len() > MAX_NAME {
            return Err(header.invalid(format!("the name of a tensor has {} bytes", name.len())));
        }
        let tensor = entry(header, &name, alignment)?;
        if tensors.insert(name.clone(), tensor).is_some() {
            return Err(header.invalid(format!("tensor `{}` is there twice", quote(&name))));
        }
    }
    let data = header.position().next_multiple_of(alignment);
    for (name, tensor) in &mut tensors {
        let place = |offset: u64| offset.checked_add(data).filter(|offset| *offset <= header.length());
        let (start, end) = (place(tensor.start), tensor.end.map(place));
        let (Some(start), None | Some(Some(_))) = (start, end) else {
            return Err(header.invalid(format!("tensor `{}` ends beyond the file; is it incomplete?", quote(name))));
        };
        (tensor.start, tensor.end) = (start, end.flatten());
    }
    check_apart(header, &tensors)?;
    Ok(tensors)
}

/// An entry, with offsets that count from the begin of the data.
fn entry(header: &mut Header, name: &str, alignment: u64) -> Result<Entry> {
    let dimensions = header.u32()?;
    if dimensions > MAX_DIMENSIONS {
        return Err(header.invalid(format!("tensor `{}` has {dimensions} dimensions", quote(name))));
    }
    let sizes = (0..dimensions).map(|_| header.u64()).collect::<Result<Vec<_>>>()?;
    let (kind, start) = (header.u32()?, header.u64()?);
    let invalid = |why: String| header.invalid(format!("tensor `{}` {why}", quote(name)));
    let count = sizes.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
    let shape: Option<Vec<usize>> = sizes.iter().rev().map(|size| usize::try_from(*size).ok()).collect();
    let (Some(count @ 1..), Some(shape)) = (count, shape) else {
        return Err(invalid(format!("has sizes that no tensor has: {sizes:?}")));
    };
    if !start.is_multiple_of(alignment) {
        return Err(invalid(format!("begins at {start}, which is no multiple of {alignment}")));
    }
    let (dtype, elements, bytes) = number_format(kind);
    let mut end = None;
    if let (Some(elements), Some(bytes)) = (elements, bytes) {
        let row = sizes.first().copied().unwrap_or(1);
        if !row.is_multiple_of(elements) {
            return Err(invalid(format!("has rows of {row} numbers, which are no whole blocks of {elements}")));
        }
        end = (count / elements).checked_mul(bytes).and_then(|bytes| bytes.checked_add(start));
        if end.is_none() {
            return Err(invalid(format!("has sizes that no file has: {sizes:?}")));
        }
    }
    Ok(Entry { dtype, shape, start, end })
}

/// The number format with this number in ggml, and the elements and bytes of a block if it is read.
fn number_format(kind: u32) -> (StoredDtype, Option<u64>, Option<u64>) {
    let plain = match kind {
        0 => Some((StoredDtype::F32, 4)),
        1 => Some((StoredDtype::F16, 2)),
        30 => Some((StoredDtype::Bf16, 2)),
        _ => None,
    };
    if let Some((dtype, bytes)) = plain {
        return (dtype, Some(1), Some(bytes));
    }
    match Block::of(kind) {
        Some(block) => {
            let (elements, bytes) = block.size();
            (StoredDtype::Block(block), Some(elements as u64), Some(bytes as u64))
        }
        None => (StoredDtype::Other(other_name(kind)), None, None),
    }
}

/// The names of number formats that are not read.
fn other_name(kind: u32) -> String {
    let name = match kind {
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        _ => return format!("{kind} of ggml"),
    };
    name.to_owned()
}

/// Refuses tensors that share bytes.
fn check_apart(header: &Header, tensors: &BTreeMap<String, Entry>) -> Result<()> {
    let mut places: Vec<(u64, u64)> = tensors.values().filter_map(|tensor| Some((tensor.start, tensor.end?))).collect();
    places.sort_unstable();
    match places.windows(2).find(|pair| matches!(pair, [(_, end), (start, _)] if start < end)) {
        Some(_) => Err(header.invalid("two of its tensors share bytes".into())),
        None => Ok(()),
    }
}
