//! Memory of tensors that are no longer needed, kept for those that come next.
//!
//! A training step makes and drops hundreds of tensors of the same few sizes. Fresh memory costs a page fault every
//! 4 KiB and a pass to zero it; on small models that is a tenth of the step.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{CpuStorage, DType, InplaceOp1, Layout, Result, Tensor};

use crate::kernels;

/// Spare memory; see [`Pool::during`].
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Spare>);

#[derive(Debug, Default)]
struct Spare {
    /// Counts the calls of [`Pool::trim`].
    age: u64,
    /// Each with the age at which it was last used.
    buffers: Vec<(u64, Vec<f32>)>,
}

thread_local! {
    /// The pool that ops of this thread use. Not an argument, since ops are called with and without one.
    static CURRENT: RefCell<Option<Arc<Pool>>> = const { RefCell::new(None) };
}

impl Pool {
    /// Runs `f` while ops on this thread take the memory of their results from this pool.
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

    /// Frees what was not used since the last call, so that the pool follows the sizes of the batches.
    pub(crate) fn trim(&self) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = spare.age;
        spare.buffers.retain(|(used, _)| *used == age);
        spare.age += 1;
    }

    fn take(&self, len: usize) -> Option<Vec<f32>> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The latest come first, for they are likely still in a cache.
        let fits = spare.buffers.iter().enumerate().rev().filter(|(_, (_, b))| b.capacity() >= len);
        // The smallest that is large enough, unless most of it would lie idle.
        let (index, _) = fits.min_by_key(|(_, (_, b))| b.capacity()).filter(|(_, (_, b))| b.capacity() <= 2 * len)?;
        Some(spare.buffers.remove(index).1)
    }

    fn give(&self, buffer: Vec<f32>) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = spare.age;
        spare.buffers.push((age, buffer));
    }
}

/// Values to be overwritten: zeros, or whatever the current pool's memory holds.
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

/// Gives a tensor's memory to the current pool. Every other view of it is empty from then on.
///
/// # Errors
/// None in practice; a tensor that is not f32 on the CPU, or that kernels work on, is only dropped.
pub(crate) fn recycle(tensor: Tensor) -> Result<()> {
    struct Steal;
    impl InplaceOp1 for Steal {
        fn name(&self) -> &'static str {
            "recycle"
        }
        fn cpu_fwd(&self, storage: &mut CpuStorage, _: &Layout) -> Result<()> {
            if let CpuStorage::F32(values) = storage {
                let values = std::mem::take(values);
                CURRENT.with_borrow(|pool| pool.as_ref().map(|pool| pool.give(values)));
            }
            Ok(())
        }
    }
    let spare = tensor.device().is_cpu() && tensor.dtype() == DType::F32 && kernels::current().is_none();
    match spare && CURRENT.with_borrow(Option::is_some) {
        true => tensor.inplace_op1(&Steal),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_until_a_step_goes_without_it() {
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
