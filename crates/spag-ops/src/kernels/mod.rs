//! The interface between ops and devices with kernels: launches, matrix products, memory and graphs.
//!
//! Each op checks its arguments, chooses grid and block, and calls [`Kernels::launch`] with the kernel's name in its
//! `.cu` file. There are two implementations: CUDA devices (feature `cuda`), and an emulator that runs the same sources
//! on a CPU in tests. Ops on CPU tensors use their CPU versions, except inside [`using`].

#[cfg(any(feature = "cuda", test))]
mod capture;
#[cfg(feature = "cuda")]
mod cublas;
#[cfg(feature = "cuda")]
mod cuda;
mod gemm;
mod launch;
mod transfer;
mod turns;

use std::cell::RefCell;
use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor, bail};

#[cfg(feature = "cuda")]
pub use cuda::CudaKernels;
pub use gemm::{Accumulate, Gemm, Operand, Orientation, SumOrder};
pub use launch::{Arg, Launch, Module};
pub(crate) use launch::{THREADS, blocks, module, suffix, vector_len};
pub use transfer::{Mark, Transfer};
pub use turns::{Turn, Turns};

/// Whether this build has the feature `cuda`.
pub const HAVE_CUDA: bool = cfg!(feature = "cuda");

/// Launch counts of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launched {
    /// Kernels, excluding those of candle.
    pub kernels: u64,
    /// Matrix products.
    pub products: u64,
}

/// A device that runs kernels.
pub trait Kernels: Send + Sync {
    /// Launches a kernel asynchronously.
    ///
    /// # Errors
    /// An unknown kernel, an unsupported grid or block, or an earlier failure. The message names the kernel and the
    /// shapes of its tensors.
    fn launch(&self, launch: &Launch<'_>) -> Result<()>;

    /// Launches a matrix product asynchronously.
    ///
    /// # Errors
    /// Mismatched shapes or number formats, or a failure of the device.
    fn gemm(&self, gemm: &Gemm<'_>) -> Result<()>;

    /// Allocates an uninitialized tensor, from this thread's [pool](crate::pool) if possible.
    fn empty(&self, shape: &[usize], dtype: DType) -> Result<Tensor>;

    /// Copies between two tensors of the same shape and number format on the device, asynchronously.
    ///
    /// # Errors
    /// Mismatched shapes or number formats, or a failure of the device.
    fn copy(&self, from: &Tensor, to: &Tensor) -> Result<()>;

    /// Marks the end of all work launched so far.
    ///
    /// # Errors
    /// A failure of the device.
    fn mark(&self) -> Result<Mark> {
        Ok(Mark::passed())
    }

    /// Orders work launched from now on after `mark`. The host does not wait.
    ///
    /// # Errors
    /// A failure of the device.
    fn order_after(&self, mark: &Mark) -> Result<()> {
        mark.wait()
    }

    /// Starts an asynchronous copy of a device tensor into a page-locked CPU tensor, ordered after `after` and earlier
    /// downloads, concurrent with other work. The CPU tensor is undefined until the transfer has been waited for.
    ///
    /// # Errors
    /// Mismatched shapes or number formats, or a failure of the device.
    fn start_download(&self, from: &Tensor, to: &Tensor, after: &Mark) -> Result<Transfer>;

    /// Starts an asynchronous copy of a page-locked CPU tensor into a device tensor; otherwise as [`Kernels::start_download`]. The
    /// CPU tensor must not change until the transfer has been waited for. Kernels that read the result must be [ordered
    /// after](Kernels::order_after) its end.
    fn start_upload(&self, from: &Tensor, to: &Tensor, after: &Mark) -> Result<Transfer>;

    /// Copies a device tensor into a CPU tensor, after all work launched before, and waits for the copy. Call it on
    /// a separate thread to overlap it with other work.
    ///
    /// # Errors
    /// As [`Kernels::start_download`].
    fn download(&self, from: &Tensor, to: &Tensor) -> Result<()> {
        self.start_download(from, to, &self.mark()?)?.wait()
    }

    /// Copies a CPU tensor into a device tensor; otherwise as [`Kernels::download`].
    fn upload(&self, from: &Tensor, to: &Tensor) -> Result<()> {
        self.start_upload(from, to, &self.mark()?)?.wait()
    }

    /// Page-locks the memory of a CPU tensor until the result is dropped, for copies at full bus speed.
    ///
    /// # Errors
    /// The operating system refuses to lock that much memory.
    fn page_lock(&self, tensor: &Tensor) -> Result<PageLock>;

    /// Captures the launches of `work` in a graph without running them. Returns `None`, without calling `work`, if the
    /// device does not support graphs. `work` may only launch kernels, matrix products and copies on the device; its
    /// kernels must have run before, and the memory it uses must stay allocated as long as the graph. If other threads use
    /// the device, the caller must hold its [turn](Turns).
    ///
    /// # Errors
    /// An error of `work`, or an operation that cannot be captured. The device remains usable.
    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Option<Box<dyn CapturedGraph>>> {
        let _ = work;
        Ok(None)
    }

    /// Launch counts so far, of all threads.
    fn launched(&self) -> Launched {
        Launched::default()
    }

    /// The turns of threads that use this device.
    fn turns(&self) -> &Turns;

    /// Maximum shared memory per block in bytes, by which ops select kernel variants.
    fn max_shared_bytes(&self) -> usize;

    /// Number of multiprocessors if the device supports warpgroup products (compute capability 9.0), for which some ops have
    /// separate kernels; `None` otherwise.
    fn warpgroup_processors(&self) -> Option<u32> {
        None
    }

    /// Waits for all launched work.
    fn synchronize(&self) -> Result<()>;

    /// From now on, fills new tensors with NaNs, to detect elements that a kernel fails to write. Costs a pass over every
    /// output. An emulator always does so.
    fn poison_outputs(&self) {}

    /// Fills memory that must not be read any more with NaNs, if outputs are poisoned.
    ///
    /// # Errors
    /// A failure of the device.
    fn poison(&self, tensor: &Tensor) -> Result<()> {
        let _ = tensor;
        Ok(())
    }
}

/// Checks that two tensors have the same shape and number format.
///
/// # Errors
/// They differ.
pub fn check_copy(from: &Tensor, to: &Tensor) -> Result<()> {
    if from.dims() != to.dims() || from.dtype() != to.dtype() {
        bail!("copying {:?} {:?} to {:?} {:?}", from.dtype(), from.dims(), to.dtype(), to.dims());
    }
    Ok(())
}

/// A captured graph of launches.
pub trait CapturedGraph: Send {
    /// Launches the graph again, on the same memory.
    fn replay(&self) -> Result<()>;
}

/// Keeps memory page-locked; see [`Kernels::page_lock`].
pub struct PageLock(#[expect(dead_code, reason = "held for its Drop")] Option<Box<dyn Send + Sync>>);

impl PageLock {
    /// For devices that need no page-locking.
    pub fn none() -> Self {
        Self(None)
    }
}

thread_local! {
    /// The kernels used for CPU tensors on this thread. Thread-local rather than an argument, because most callers
    /// of ops have none.
    static CURRENT: RefCell<Option<Arc<dyn Kernels>>> = const { RefCell::new(None) };
}

/// Runs `f` with ops on CPU tensors of this thread using `kernels`.
pub fn using<R>(kernels: Arc<dyn Kernels>, f: impl FnOnce() -> R) -> R {
    with(Some(kernels), f)
}

/// Runs `f` with ops on CPU tensors of this thread using their CPU versions.
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

/// The kernels used for CPU tensors on this thread.
pub(crate) fn current() -> Option<Arc<dyn Kernels>> {
    CURRENT.with_borrow(Clone::clone)
}

/// The kernels for tensors of `device`; `None` if ops use their CPU versions.
///
/// # Errors
/// An unsupported device.
pub fn of(device: &Device) -> Result<Option<Arc<dyn Kernels>>> {
    match device {
        Device::Cpu => Ok(current()),
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => Ok(Some(CudaKernels::of(device)?)),
        other => bail!("there are no kernels for {other:?}"),
    }
}
