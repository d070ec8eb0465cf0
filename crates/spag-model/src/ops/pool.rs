//! A pool that recycles the memory of dropped tensors.
//!
//! A training step allocates and drops hundreds of tensors of the same few sizes. Fresh memory costs a page fault every
//! 4 KiB and a pass to zero it; on small models this takes a tenth of the step.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{CpuStorage, DType, InplaceOp1, Layout, Result, Tensor};

use crate::kernels;

/// Free buffers; see [`Pool::during`].
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Spare>);

#[derive(Debug, Default)]
struct Spare {
    /// Number of calls of [`Pool::trim`].
    age: u64,
    /// Buffers, each with the age of its last use.
    buffers: Vec<(u64, Vec<f32>)>,
}

thread_local! {
    /// The pool of this thread's ops. Not an argument, because most callers of ops have none.
    static CURRENT: RefCell<Option<Arc<Pool>>> = const { RefCell::new(None) };
}

impl Pool {
    /// Runs `f` with ops on this thread allocating their results from this pool.
    pub(crate) fn during<R>(self: &Arc<Self>, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<Arc<Pool>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _restore = Restore(CURRENT.replace(Some(self.clone())));
        f()
    }

    /// Frees buffers that were not used since the last call, so that the pool follows the batch sizes.
    pub(crate) fn trim(&self) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = spare.age;
        spare.buffers.retain(|(used, _)| *used == age);
        spare.age += 1;
    }

    fn take(&self, len: usize) -> Option<Vec<f32>> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Most recent first: they are likely still in a cache.
        let fits = spare.buffers.iter().enumerate().rev().filter(|(_, (_, b))| b.capacity() >= len);
        // The smallest sufficient buffer, unless more than half would be unused.
        let (index, _) = fits.min_by_key(|(_, (_, b))| b.capacity()).filter(|(_, (_, b))| b.capacity() <= 2 * len)?;
        Some(spare.buffers.remove(index).1)
    }

    fn give(&self, buffer: Vec<f32>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = spare.age;
        spare.buffers.push((age, buffer));
    }
}

/// A buffer to be overwritten; its contents are arbitrary.
pub(crate) fn values(len: usize) -> Vec<f32> {
    let spare = CURRENT.with_borrow(|pool| pool.as_ref().and_then(|pool| pool.take(len)));
    match spare {
        Some(mut buffer) => {
            buffer.resize(len, 0.0);
            buffer
        }
        None => vec![0.0; len],
    }
}

/// Returns a buffer to the current pool.
pub(crate) fn give(buffer: Vec<f32>) {
    CURRENT.with_borrow(|pool| pool.as_ref().map(|pool| pool.give(buffer)));
}

/// Returns a tensor's memory to the current pool. All other views of it become empty.
///
/// # Errors
/// None in practice. Tensors that are not f32 on the CPU, or used by kernels, are only dropped.
pub(crate) fn recycle(tensor: Tensor) -> Result<()> {
    struct Steal;
    impl InplaceOp1 for Steal {
        fn name(&self) -> &'static str {
            "recycle"
        }
        fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> Result<()> {
            if let CpuStorage::F32(values) = storage {
                give(std::mem::take(values));
            }
            Ok(())
        }
    }
    let spare = tensor.device().is_cpu() && tensor.dtype() == DType::F32 && kernels::current().is_none();
    if spare && CURRENT.with_borrow(Option::is_some) {
        tensor.inplace_op1(&Steal)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_reuses_memory_until_a_step_does_not_need_it() {
        let pool = Arc::new(Pool::default());
        let address = pool.during(|| {
            let first = values(1000);
            let address = first.as_ptr() as usize;
            recycle(Tensor::from_vec(first, 1000, &candle_core::Device::Cpu).unwrap()).unwrap();
            let small = values(100);
            assert_ne!(small.as_ptr() as usize, address, "far too large for 100");
            let again = values(900);
            assert_eq!((again.as_ptr() as usize, again.len()), (address, 900));
            recycle(Tensor::from_vec(again, 900, &candle_core::Device::Cpu).unwrap()).unwrap();
            address
        });
        pool.trim();
        assert_eq!(pool.0.lock().unwrap().buffers[0].1.as_ptr() as usize, address);
        pool.trim();
        assert!(pool.0.lock().unwrap().buffers.is_empty());
        assert_eq!(values(3), [0.0; 3], "no pool");
    }
}
