//! Access to candle CPU tensors as slices, for reading and in-place updates.

use std::cell::RefCell;
use std::ops::Range;

use half::bf16;

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, Tensor, WithDType, bail};

fn span(layout: &Layout, what: &str) -> Result<Range<usize>> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(start..end),
        None => bail!("{what}: the tensor is not contiguous ({layout:?})"),
    }
}

/// Calls `f` with the values of a contiguous f32 CPU tensor.
pub fn read<R>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(CpuStorage::F32(values)) => f(&values[span(layout, "read")?]),
        Storage::Cpu(other) => {
            bail!("expected f32 values, got {:?}", candle_core::backend::BackendStorage::dtype(other))
        }
        _ => bail!("this op does not support {:?}", tensor.device()),
    }
}

/// Calls `f` with the values of a contiguous f32 CPU tensor, for in-place updates.
///
/// Views of one storage share a lock: `f` must not read another view of the same storage.
pub fn update<R>(tensor: &Tensor, f: impl FnOnce(&mut [f32]) -> Result<R>) -> Result<R> {
    in_place(tensor, |storage, range| match storage {
        CpuStorage::F32(values) => f(&mut values[range]),
        _ => bail!("expected f32 values to update"),
    })
}

/// As [`update`], for an f64 tensor.
pub(crate) fn update_f64<R>(tensor: &Tensor, f: impl FnOnce(&mut [f64]) -> Result<R>) -> Result<R> {
    in_place(tensor, |storage, range| match storage {
        CpuStorage::F64(values) => f(&mut values[range]),
        _ => bail!("expected f64 values to update"),
    })
}

/// As [`update`], for a bf16 tensor.
pub fn update_bf16<R>(tensor: &Tensor, f: impl FnOnce(&mut [bf16]) -> Result<R>) -> Result<R> {
    in_place(tensor, |storage, range| match storage {
        CpuStorage::BF16(values) => f(&mut values[range]),
        _ => bail!("expected bf16 values to update"),
    })
}

fn in_place<R>(tensor: &Tensor, f: impl FnOnce(&mut CpuStorage, Range<usize>) -> Result<R>) -> Result<R> {
    struct Update<F, R>(RefCell<(Option<F>, Option<R>)>);
    impl<R, F: FnOnce(&mut CpuStorage, Range<usize>) -> Result<R>> InplaceOp1 for Update<F, R> {
        fn name(&self) -> &'static str {
            "update"
        }
        fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
            let range = span(layout, "update")?;
            let mut cell = self.0.borrow_mut();
            if let Some(f) = cell.0.take() {
                cell.1 = Some(f(storage, range)?);
            }
            Ok(())
        }
    }
    let op = Update(RefCell::new((Some(f), None)));
    tensor.inplace_op1(&op)?;
    match op.0.into_inner().1 {
        Some(result) => Ok(result),
        None => bail!("an in-place update did not run"),
    }
}

/// Where the values of a contiguous CPU tensor are in its memory.
pub(crate) fn range(tensor: &Tensor) -> Result<Range<usize>> {
    span(tensor.layout(), "range")
}

/// Takes the whole memory of an f32 CPU tensor. All views of that memory become empty.
pub(crate) fn take(tensor: &Tensor) -> Result<Vec<f32>> {
    in_place(tensor, |storage, _| match storage {
        CpuStorage::F32(values) => Ok(std::mem::take(values)),
        _ => bail!("expected f32 values to take"),
    })
}

/// As [`take`], of a bf16 tensor.
pub(crate) fn take_bf16(tensor: &Tensor) -> Result<Vec<bf16>> {
    in_place(tensor, |storage, _| match storage {
        CpuStorage::BF16(values) => Ok(std::mem::take(values)),
        _ => bail!("expected bf16 values to take"),
    })
}

/// Calls `f` with the values of a contiguous bf16 CPU tensor.
pub fn read_bf16<R>(tensor: &Tensor, f: impl FnOnce(&[bf16]) -> Result<R>) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(CpuStorage::BF16(values)) => f(&values[span(layout, "read")?]),
        _ => bail!("expected bf16 values on the CPU, got {:?} on {:?}", tensor.dtype(), tensor.device()),
    }
}

/// A number format of activations, keys and values.
pub(crate) trait Stored: WithDType {
    /// Calls `f` with the values of a contiguous CPU tensor of this format.
    fn read<R>(tensor: &Tensor, f: impl FnOnce(&[Self]) -> Result<R>) -> Result<R>;

    /// As [`Stored::read`], for in-place updates.
    fn update<R>(tensor: &Tensor, f: impl FnOnce(&mut [Self]) -> Result<R>) -> Result<R>;
}

impl Stored for f32 {
    fn read<R>(tensor: &Tensor, f: impl FnOnce(&[Self]) -> Result<R>) -> Result<R> {
        read(tensor, f)
    }

    fn update<R>(tensor: &Tensor, f: impl FnOnce(&mut [Self]) -> Result<R>) -> Result<R> {
        update(tensor, f)
    }
}

impl Stored for bf16 {
    fn read<R>(tensor: &Tensor, f: impl FnOnce(&[Self]) -> Result<R>) -> Result<R> {
        read_bf16(tensor, f)
    }

    fn update<R>(tensor: &Tensor, f: impl FnOnce(&mut [Self]) -> Result<R>) -> Result<R> {
        update_bf16(tensor, f)
    }
}

/// Creates a CPU tensor.
pub fn tensor<T: WithDType>(values: Vec<T>, shape: impl candle_core::shape::ShapeWithOneHole) -> Result<Tensor> {
    Tensor::from_vec(values, shape, &candle_core::Device::Cpu)
}

/// A pointer shared by worker threads, which must write disjoint elements.
#[derive(Clone, Copy)]
pub(crate) struct SharedMut<T = f32>(*mut T);

// SAFETY: the pointer is only dereferenced in tasks that write disjoint elements (each says why).
unsafe impl<T: Send> Send for SharedMut<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedMut<T> {}

impl<T: Copy> SharedMut<T> {
    /// Shares `values`, which must outlive every use.
    pub(crate) fn new(values: &mut [T]) -> Self {
        Self(values.as_mut_ptr())
    }

    /// Address of element `offset`, which must be inside the slice.
    pub(crate) fn at(self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }
}
