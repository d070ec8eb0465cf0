//! The device address of a flat tensor.

use std::cell::Cell;

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::{CudaStorage, CudaStorageSlice};
use candle_core::{CpuStorage, InplaceOp1, Layout, Tensor, bail};
use cudarc::driver::{CudaStream, DevicePtrMut};

use crate::{Error, Result};

/// The address of a flat tensor's first element, valid while the tensor lives.
///
/// # Errors
/// The tensor is not on a GPU or has an unsupported number format.
pub(crate) fn address(tensor: &Tensor, stream: &CudaStream) -> Result<u64> {
    let op = Address { stream, found: Cell::new(None) };
    tensor.inplace_op1(&op)?;
    op.found.get().ok_or_else(|| Error::Tensor("its memory was not accessed".into()))
}

struct Address<'a> {
    stream: &'a CudaStream,
    found: Cell<Option<u64>>,
}

impl InplaceOp1 for Address<'_> {
    fn name(&self) -> &'static str {
        "collective"
    }

    fn cpu_fwd(&self, _storage: &mut CpuStorage, _layout: &Layout) -> candle_core::Result<()> {
        bail!("a buffer on a GPU is needed")
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> candle_core::Result<()> {
        let Some((start, _)) = layout.contiguous_offsets() else { bail!("the buffer is not contiguous") };
        let offset = start * storage.dtype().size_in_bytes();
        // With event tracking, this also orders our stream after earlier uses; the group's own events do so anyway.
        let base = match &mut storage.slice {
            CudaStorageSlice::U8(values) => values.device_ptr_mut(self.stream).0,
            CudaStorageSlice::U32(values) => values.device_ptr_mut(self.stream).0,
            CudaStorageSlice::I16(values) => values.device_ptr_mut(self.stream).0,
            CudaStorageSlice::I32(values) => values.device_ptr_mut(self.stream).0,
            CudaStorageSlice::I64(values) => values.device_ptr_mut(self.stream).0,
            CudaStorageSlice::BF16(values) => values.device_ptr_mut(self.stream).0,
            CudaStorageSlice::F16(values) => values.device_ptr_mut(self.stream).0,
            CudaStorageSlice::F32(values) => values.device_ptr_mut(self.stream).0,
            CudaStorageSlice::F64(values) => values.device_ptr_mut(self.stream).0,
            _ => bail!("numbers of this type cannot be sent"),
        };
        self.found.set(Some(base + offset as u64));
        Ok(())
    }
}
