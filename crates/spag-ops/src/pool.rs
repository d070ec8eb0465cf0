//! A pool that recycles the memory of dropped tensors.
//!
//! A training step allocates and drops hundreds of tensors of the same few sizes. Fresh memory costs a page fault every 4 KiB
//! and a pass to zero it, a tenth of the step on small models. On a device it costs two driver calls per tensor, nearly as
//! many as launches.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Result, Tensor};
use half::bf16;

use crate::cpu::{self, Stored};
use crate::kernels;

/// Free buffers; see [`Pool::during`].
#[derive(Debug, Default)]
pub struct Pool(Mutex<Spare>);

#[derive(Debug, Default)]
pub(crate) struct Spare {
    /// Number of calls of [`Pool::trim`].
    age: u64,
    wide: Buffers<f32>,
    narrow: Buffers<bf16>,
    /// Device tensors. Work on a device is ordered, so the memory may be overwritten immediately.
    tensors: Vec<Tensor>,
}

/// Buffers, each with the age of its last use.
type Buffers<T> = Vec<(u64, Vec<T>)>;

/// A number format of buffers.
pub(crate) trait Pooled: Stored {
    /// The free buffers of this format.
    fn of(spare: &mut Spare) -> &mut Buffers<Self>;
}

impl Pooled for f32 {
    fn of(spare: &mut Spare) -> &mut Buffers<Self> {
        &mut spare.wide
    }
}

impl Pooled for bf16 {
    fn of(spare: &mut Spare) -> &mut Buffers<Self> {
        &mut spare.narrow
    }
}

thread_local! {
    /// The pool of this thread's ops. Thread-local rather than an argument, because most callers of ops have none.
    static CURRENT: RefCell<Option<Arc<Pool>>> = const { RefCell::new(None) };
}

impl Pool {
    /// Runs `f`; ops on this thread allocate their results from this pool.
    pub fn during<R>(self: &Arc<Self>, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<Arc<Pool>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self.clone())));
        f()
    }

    /// Frees the pool's device tensors, since device memory is shared with all other users.
    pub fn free_tensors(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).tensors.clear();
    }

    /// Frees all device tensors, and buffers not used since the last call, so that the pool adapts to the batch sizes.
    pub fn trim(&self) {
        self.free_tensors();
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = spare.age;
        spare.wide.retain(|(used, _)| *used == age);
        spare.narrow.retain(|(used, _)| *used == age);
        spare.age += 1;
    }

    fn take<T: Pooled>(&self, len: usize) -> Option<Vec<T>> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let buffers = T::of(&mut spare);
        // Most recent first: they are likely still in a cache.
        let fits = buffers.iter().enumerate().rev().filter(|(_, (_, b))| b.capacity() >= len);
        // The smallest sufficient buffer, unless more than half would be unused.
        let (index, _) = fits.min_by_key(|(_, (_, b))| b.capacity()).filter(|(_, (_, b))| b.capacity() <= 2 * len)?;
        Some(buffers.remove(index).1)
    }

    fn give<T: Pooled>(&self, buffer: Vec<T>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = spare.age;
        T::of(&mut spare).push((age, buffer));
    }
}

/// Takes a tensor with that many elements from the current pool, in device memory, to be overwritten; `None` if
/// there is none. For [`Kernels::empty`](kernels::Kernels::empty).
pub fn spare(shape: &[usize], dtype: DType, device: &Device) -> Option<Tensor> {
    let pool = CURRENT.with_borrow(Clone::clone)?;
    let tensors = &mut pool.0.lock().unwrap_or_else(PoisonError::into_inner).tensors;
    let count: usize = shape.iter().product();
    let fits = |one: &Tensor| one.elem_count() == count && one.dtype() == dtype && one.device().same_device(device);
    let index = tensors.iter().rposition(fits)?;
    tensors.swap_remove(index).reshape(shape).ok()
}

/// A buffer to be overwritten; its contents are arbitrary.
pub(crate) fn values<T: Pooled>(len: usize) -> Vec<T> {
    let spare = CURRENT.with_borrow(|pool| pool.as_ref().and_then(|pool| pool.take(len)));
    match spare {
        Some(mut buffer) => {
            buffer.resize(len, T::zero());
            buffer
        }
        None => vec![T::zero(); len],
    }
}

/// A zero tensor [rows, columns], f32, on the CPU.
///
/// # Errors
/// A failure of candle.
pub fn zeros(rows: usize, columns: usize) -> Result<Tensor> {
    let zeros = cpu::tensor(values::<f32>(rows * columns), (rows, columns))?;
    zeros.zero_set()?;
    Ok(zeros)
}

/// Returns a buffer to the current pool.
pub(crate) fn give<T: Pooled>(buffer: Vec<T>) {
    CURRENT.with_borrow(|pool| pool.as_ref().map(|pool| pool.give(buffer)));
}

/// Returns a tensor's memory to the current pool. The tensor must cover its whole memory, and other views of it must not be used
/// any more: on a CPU they become empty, and on a device their contents are overwritten.
///
/// # Errors
/// An error of the device. CPU tensors that are neither f32 nor bf16 are simply dropped.
pub fn recycle(tensor: Tensor) -> Result<()> {
    struct Steal;
    impl InplaceOp1 for Steal {
        fn name(&self) -> &'static str {
            "recycle"
        }
        fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> Result<()> {
            match storage {
                CpuStorage::F32(values) => give(std::mem::take(values)),
                CpuStorage::BF16(values) => give(std::mem::take(values)),
                _ => {}
            }
            Ok(())
        }
    }
    let Some(pool) = CURRENT.with_borrow(Clone::clone) else { return Ok(()) };
    match kernels::of(tensor.device())? {
        None if tensor.dtype().is_float() => tensor.inplace_op1(&Steal),
        None => Ok(()),
        Some(kernels) => {
            kernels.poison(&tensor)?;
            pool.0.lock().unwrap_or_else(PoisonError::into_inner).tensors.push(tensor);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_reuses_memory_until_a_step_does_not_need_it() {
        let pool = Arc::new(Pool::default());
        let address = pool.during(|| {
            let first = values::<f32>(1000);
            let address = first.as_ptr() as usize;
            recycle(Tensor::from_vec(first, 1000, &candle_core::Device::Cpu).unwrap()).unwrap();
            let small = values::<f32>(100);
            assert_ne!(small.as_ptr() as usize, address, "far too large for 100");
            let again = values::<f32>(900);
            assert_eq!((again.as_ptr() as usize, again.len()), (address, 900));
            recycle(Tensor::from_vec(again, 900, &candle_core::Device::Cpu).unwrap()).unwrap();
            address
        });
        pool.trim();
        assert_eq!(pool.0.lock().unwrap().wide[0].1.as_ptr() as usize, address);
        pool.trim();
        assert!(pool.0.lock().unwrap().wide.is_empty());
        assert_eq!(values::<f32>(3), [0.0; 3], "no pool");
    }
}
