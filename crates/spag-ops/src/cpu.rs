//! Access to candle CPU tensors as slices, for reading and in-place updates.

use std::cell::RefCell;
use std::ops::Range;

use half::bf16;

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Storage, Tensor, WithDType, bail};

fn span(layout: &Layout, what: &str) -> Result<Range<usize>> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(start..end),
        None => bail!("{what}: the tensor is not contiguous ({layout:?})"),
    }
}

/// A number format of CPU tensors.
pub trait Stored: WithDType {
    /// The values of a storage.
    ///
    /// # Errors
    /// The storage has another format.
    fn values(storage: &CpuStorage) -> Result<&[Self]>;

    /// Mutable [`Stored::values`].
    ///
    /// # Errors
    /// As [`Stored::values`].
    fn values_mut(storage: &mut CpuStorage) -> Result<&mut Vec<Self>>;

    /// Calls `f` with the values of a contiguous CPU tensor of this format.
    ///
    /// # Errors
    /// The tensor has another format or device or is not contiguous, or an error of `f`.
    fn read<R>(tensor: &Tensor, f: impl FnOnce(&[Self]) -> Result<R>) -> Result<R> {
        let (storage, layout) = tensor.storage_and_layout();
        match &*storage {
            Storage::Cpu(storage) => f(&Self::values(storage)?[span(layout, "read")?]),
            _ => bail!("this op does not support {:?}", tensor.device()),
        }
    }

    /// [`Stored::read`] for in-place updates.
    ///
    /// Views of one storage share a lock: `f` must not read another view of the same storage.
    ///
    /// # Errors
    /// As [`Stored::read`].
    fn update<R>(tensor: &Tensor, f: impl FnOnce(&mut [Self]) -> Result<R>) -> Result<R> {
        in_place(tensor, |storage, range| f(&mut Self::values_mut(storage)?[range]))
    }

    /// Takes the whole memory of a CPU tensor of this format. All views of it become empty.
    ///
    /// # Errors
    /// The tensor has another format or device.
    fn take(tensor: &Tensor) -> Result<Vec<Self>> {
        in_place(tensor, |storage, _| Ok(std::mem::take(Self::values_mut(storage)?)))
    }
}

/// Implements [`Stored`] for the element type of a variant of candle's storage.
macro_rules! stored {
    ($variant:ident, $element:ty) => {
        impl Stored for $element {
            fn values(storage: &CpuStorage) -> Result<&[Self]> {
                match storage {
                    CpuStorage::$variant(values) => Ok(values),
                    other => bail!("expected {} values, got {:?}", Self::DTYPE.as_str(), other.dtype()),
                }
            }

            fn values_mut(storage: &mut CpuStorage) -> Result<&mut Vec<Self>> {
                match storage {
                    CpuStorage::$variant(values) => Ok(values),
                    other => bail!("expected {} values, got {:?}", Self::DTYPE.as_str(), other.dtype()),
                }
            }
        }
    };
}
stored!(F32, f32);
stored!(BF16, bf16);
stored!(F64, f64);

/// [`Stored::read`] of f32.
///
/// # Errors
/// As there.
pub fn read<R>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    f32::read(tensor, f)
}

/// [`Stored::update`] of f32.
///
/// # Errors
/// As there.
pub fn update<R>(tensor: &Tensor, f: impl FnOnce(&mut [f32]) -> Result<R>) -> Result<R> {
    f32::update(tensor, f)
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

/// The range of a contiguous CPU tensor's values in its storage.
pub(crate) fn range(tensor: &Tensor) -> Result<Range<usize>> {
    span(tensor.layout(), "range")
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
