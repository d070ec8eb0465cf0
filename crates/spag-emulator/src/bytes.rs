//! The bytes of contiguous CPU tensors.

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, Tensor, bail};

/// Dispatches on the number format of a storage.
macro_rules! with_elements {
    ($storage:expr, $values:ident => $body:expr) => {
        match $storage {
            CpuStorage::F32($values) => $body,
            CpuStorage::BF16($values) => $body,
            CpuStorage::U32($values) => $body,
            CpuStorage::F64($values) => $body,
            CpuStorage::I64($values) => $body,
            CpuStorage::U8($values) => $body,
            _ => bail!("a tensor of a number format that no kernel takes"),
        }
    };
}

/// Numbers for which every bit pattern is valid.
trait Plain: Copy {}
impl Plain for f32 {}
impl Plain for half::bf16 {}
impl Plain for u32 {}
impl Plain for f64 {}
impl Plain for i64 {}
impl Plain for u8 {}

fn as_bytes<T: Plain>(values: &[T]) -> &[u8] {
    // SAFETY: plain numbers have no padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn as_bytes_mut<T: Plain>(values: &mut [T]) -> &mut [u8] {
    // SAFETY: plain numbers have no padding, and every bit pattern is valid.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

fn span(layout: &Layout) -> Result<std::ops::Range<usize>> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(start..end),
        None => bail!("a tensor that is not contiguous ({layout:?})"),
    }
}

/// The byte offset of a tensor in its storage.
pub(crate) fn offset(tensor: &Tensor) -> usize {
    tensor.layout().start_offset() * tensor.dtype().size_in_bytes()
}

/// Copies a tensor's bytes.
pub(crate) fn read(tensor: &Tensor) -> Result<Vec<u8>> {
    let (storage, layout) = tensor.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else { bail!("a tensor on {:?} for the emulator", tensor.device()) };
    let span = span(layout)?;
    Ok(with_elements!(storage, values => as_bytes(&values[span]).to_vec()))
}

/// Overwrites a tensor's bytes.
pub(crate) fn write(tensor: &Tensor, bytes: &[u8]) -> Result<()> {
    struct Write<'a>(&'a [u8]);
    impl InplaceOp1 for Write<'_> {
        fn name(&self) -> &'static str {
            "write"
        }
        fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
            let span = span(layout)?;
            with_elements!(storage, values => as_bytes_mut(&mut values[span]).copy_from_slice(self.0));
            Ok(())
        }
    }
    tensor.inplace_op1(&Write(bytes))
}
