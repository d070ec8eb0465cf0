//! Access to the bytes of a flat tensor on the CPU.

use std::cell::RefCell;

use bytemuck::cast_slice_mut;
use candle_core::{CpuStorage, InplaceOp1, Layout, Tensor, bail};

use crate::{Error, Result};

/// Calls `f` with the bytes of a flat, contiguous tensor. Its storage is locked during the call.
///
/// # Errors
/// The tensor is not on the CPU or has an unsupported number format.
pub(crate) fn with_bytes<R>(tensor: &Tensor, f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
    let op = Access(RefCell::new((Some(f), None)));
    tensor.inplace_op1(&op)?;
    op.0.into_inner().1.ok_or_else(|| Error::Tensor("its memory was not accessed".into()))
}

struct Access<F, R>(RefCell<(Option<F>, Option<R>)>);

impl<R, F: FnOnce(&mut [u8]) -> R> InplaceOp1 for Access<F, R> {
    fn name(&self) -> &'static str {
        "collective"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let Some((start, end)) = layout.contiguous_offsets() else { bail!("the buffer is not contiguous") };
        let range = start..end;
        let bytes: Option<&mut [u8]> = match storage {
            CpuStorage::U8(values) => values.get_mut(range),
            CpuStorage::U32(values) => values.get_mut(range).map(cast_slice_mut),
            CpuStorage::I16(values) => values.get_mut(range).map(cast_slice_mut),
            CpuStorage::I32(values) => values.get_mut(range).map(cast_slice_mut),
            CpuStorage::I64(values) => values.get_mut(range).map(cast_slice_mut),
            CpuStorage::BF16(values) => values.get_mut(range).map(cast_slice_mut),
            CpuStorage::F16(values) => values.get_mut(range).map(cast_slice_mut),
            CpuStorage::F32(values) => values.get_mut(range).map(cast_slice_mut),
            CpuStorage::F64(values) => values.get_mut(range).map(cast_slice_mut),
            _ => bail!("numbers of this type cannot be sent"),
        };
        let Some(bytes) = bytes else { bail!("the buffer is smaller than its layout") };
        let mut cell = self.0.borrow_mut();
        if let Some(f) = cell.0.take() {
            cell.1 = Some(f(bytes));
        }
        Ok(())
    }
}
