//! What the ops ask of a device that runs kernels: launching them, products of matrices, memory.
//!
//! Each op checks its arguments, chooses grid and block and calls [`Kernels::launch`] with the name that its `.cu` file
//! exports. Two things answer: a CUDA device (feature `cuda`), and in tests an emulator that runs the same sources on a
//! CPU. Tensors on a CUDA device always go to it; tensors on a CPU go to the CPU versions of the ops, unless
//! [`using`] says otherwise.

#[cfg(feature = "cuda")]
mod cuda;
mod gemm;
mod launch;

use std::cell::RefCell;
use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};

#[cfg(feature = "cuda")]
pub use cuda::CudaKernels;
pub use gemm::{Accumulate, Gemm, Operand, Orientation};
pub(crate) use launch::module;
pub use launch::{Arg, Launch, Module, suffix};

/// Something that runs kernels.
pub trait Kernels: Send + Sync {
    /// Starts a kernel; it may still run when this returns.
    ///
    /// # Errors
    /// No such kernel, a grid or block that the device does not take, or an earlier failure. The text names the kernel
    /// and the shapes of its tensors.
    fn launch(&self, launch: &Launch<'_>) -> Result<()>;

    /// Starts a product of matrices.
    ///
    /// # Errors
    /// Shapes or number formats that do not fit, or a failure of the device, with the shapes.
    fn gemm(&self, gemm: &Gemm<'_>) -> Result<()>;

    /// A tensor whose elements hold anything until they are written.
    ///
    /// # Errors
    /// No memory.
    fn empty(&self, shape: &[usize], dtype: DType) -> Result<Tensor>;

    /// Starts a copy from one tensor of the device to another of the same shape and number format.
    ///
    /// # Errors
    /// Shapes or number formats that differ, or a failure of the device.
    fn copy(&self, from: &Tensor, to: &Tensor) -> Result<()>;

    /// Copies a tensor of the device into one on the CPU, after all that the device was told to do before, and returns
    /// when it is there. Meant to be called on a thread of its own: other work goes on meanwhile.
    ///
    /// # Errors
    /// Shapes or number formats that differ, or a failure of the device.
    fn download(&self, from: &Tensor, to: &Tensor) -> Result<()>;

    /// Copies a tensor on the CPU into one of the device; else as [`Kernels::download`].
    ///
    /// # Errors
    /// As [`Kernels::download`].
    fn upload(&self, from: &Tensor, to: &Tensor) -> Result<()>;

    /// Keeps the memory of a CPU tensor in place until the result is dropped, so that copies of it to and from the
    /// device run at the bus's full speed.
    ///
    /// # Errors
    /// The system does not allow so much.
    fn page_lock(&self, tensor: &Tensor) -> Result<PageLock>;

    /// Takes down what `work` launches, for later: nothing runs yet. `None` where the device cannot; `work` has not been
    /// called then. `work` must do nothing but launch kernels, multiply and copy on the device; its kernels must have run
    /// before, and what it reads and writes outside itself must stay where it is as long as the result lives.
    ///
    /// # Errors
    /// What `work` reports, or that it did what cannot be taken down.
    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Option<Box<dyn CapturedGraph>>> {
        let _ = work;
        Ok(None)
    }

    /// Waits until the device has done all that it was told to do.
    ///
    /// # Errors
    /// What went wrong meanwhile.
    fn synchronize(&self) -> Result<()>;
}

/// Work that a device has taken down and does again without being told step by step.
pub trait CapturedGraph: Send {
    /// Starts the work once more, on the same memory.
    ///
    /// # Errors
    /// A failure of the device.
    fn replay(&self) -> Result<()>;
}

/// Memory that is kept in place; see [`Kernels::page_lock`].
pub struct PageLock(#[expect(dead_code, reason = "it is there to be dropped")] Option<Box<dyn Send + Sync>>);

impl PageLock {
    /// Of a device that needs none.
    pub fn none() -> Self {
        Self(None)
    }
}

thread_local! {
    /// What runs kernels on CPU tensors, on this thread. Not an argument, since ops are called with and without.
    static CURRENT: RefCell<Option<Arc<dyn Kernels>>> = const { RefCell::new(None) };
}

/// Runs `f` while ops on CPU tensors of this thread go to `kernels`.
pub fn using<R>(kernels: Arc<dyn Kernels>, f: impl FnOnce() -> R) -> R {
    with(Some(kernels), f)
}

/// Runs `f` while ops on CPU tensors of this thread are the CPU's own.
pub fn without<R>(f: impl FnOnce() -> R) -> R {
    with(None, f)
}

fn with<R>(kernels: Option<Arc<dyn Kernels>>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Arc<dyn Kernels>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = Restore(CURRENT.replace(kernels));
    f()
}

/// What runs kernels on CPU tensors, on this thread.
pub(crate) fn current() -> Option<Arc<dyn Kernels>> {
    CURRENT.with_borrow(Clone::clone)
}

/// What runs the kernels of ops on tensors of `device`; nothing where the CPU versions do.
///
/// # Errors
/// A device that there are no kernels for.
pub fn of(device: &Device) -> Result<Option<Arc<dyn Kernels>>> {
    match device {
        Device::Cpu => Ok(current()),
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => Ok(Some(CudaKernels::of(device)?)),
        other => candle_core::bail!("there are no kernels for {other:?}"),
    }
}
