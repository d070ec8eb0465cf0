//! The table of tensors of a GGUF file.

use std::collections::BTreeMap;

use candle_core::quantized::GgmlDType;
use spag_io::quote;

use super::header::Header;
use crate::dtype::StoredDtype;
use crate::error::Result;

/// Maximum tensors. The largest supported models have some 200 thousand.
const MAX_TENSORS: u64 = 1 << 18;
/// Maximum bytes of a name. ggml writes at most 64.
const MAX_NAME: usize = 256;
/// Maximum dimensions, as in ggml.
const MAX_DIMENSIONS: u32 = 4;

/// The location of a tensor in the file.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) dtype: StoredDtype,
    /// Row-major; the file has the fastest index first.
    pub(crate) shape: Vec<usize>,
    /// Offset of its first byte in the file.
    pub(crate) start: u64,
    /// Offset of its end in the file; `None` if its number format is not supported.
    end: Option<u64>,
}

/// Reads `count` entries and validates them against the file. Data starts at the next multiple of `alignment`.
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
    let data = header.at.next_multiple_of(alignment);
    for (name, tensor) in &mut tensors {
        let place = |offset: u64| offset.checked_add(data).filter(|offset| *offset <= header.length);
        let (start, end) = (place(tensor.start), tensor.end.map(place));
        let (Some(start), None | Some(Some(_))) = (start, end) else {
            return Err(header.invalid(format!("tensor `{}` ends beyond the file; is it incomplete?", quote(name))));
        };
        (tensor.start, tensor.end) = (start, end.flatten());
    }
    check_apart(header, &tensors)?;
    Ok(tensors)
}

/// An entry, with offsets relative to the start of the data.
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
    let dtype = number_format(kind);
    let mut end = None;
    if let StoredDtype::Read(dtype) = dtype {
        let (elements, bytes) = (dtype.block_size() as u64, dtype.type_size() as u64);
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

/// The number format with this ggml number.
fn number_format(kind: u32) -> StoredDtype {
    StoredDtype::Read(match kind {
        0 => GgmlDType::F32,
        1 => GgmlDType::F16,
        2 => GgmlDType::Q4_0,
        3 => GgmlDType::Q4_1,
        6 => GgmlDType::Q5_0,
        7 => GgmlDType::Q5_1,
        8 => GgmlDType::Q8_0,
        9 => GgmlDType::Q8_1,
        10 => GgmlDType::Q2K,
        11 => GgmlDType::Q3K,
        12 => GgmlDType::Q4K,
        13 => GgmlDType::Q5K,
        14 => GgmlDType::Q6K,
        15 => GgmlDType::Q8K,
        30 => GgmlDType::BF16,
        other => return StoredDtype::Other(other_name(other)),
    })
}

/// Names of unsupported number formats: those from number 16 on, and others.
const OTHERS: [&str; 14] = [
    "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8", "I16", "I32", "I64", "F64",
    "IQ1_M",
];

/// The name of an unsupported number format.
fn other_name(kind: u32) -> String {
    let named = match kind {
        34 => Some(&"TQ1_0"),
        35 => Some(&"TQ2_0"),
        39 => Some(&"MXFP4"),
        _ => kind.checked_sub(16).and_then(|at| OTHERS.get(at as usize)),
    };
    named.map_or_else(|| format!("{kind} of ggml"), |name| (*name).to_owned())
}

/// Refuses tensors that overlap.
fn check_apart(header: &Header, tensors: &BTreeMap<String, Entry>) -> Result<()> {
    let mut places: Vec<(u64, u64)> = tensors.values().filter_map(|tensor| Some((tensor.start, tensor.end?))).collect();
    places.sort_unstable();
    match places.windows(2).find(|pair| matches!(pair, [(_, end), (start, _)] if start < end)) {
        Some(_) => Err(header.invalid("two of its tensors share bytes".into())),
        None => Ok(()),
    }
}
