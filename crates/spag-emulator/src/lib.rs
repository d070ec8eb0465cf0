//! Emulates CUDA kernels on a CPU: compiles their sources as C++ and runs them thread by thread.
//!
//! It checks a kernel's results, the types of its arguments, its memory accesses, that all threads reach its barriers and
//! warp operations, and that barriers order accesses of different threads to the same memory. It does not model speed. See
//! `cuda/emulator.h`, `cuda/warpgroups.h` and `cuda/races.h`.
//!
//! ```
//! use std::sync::Arc;
//! use candle_core::{Device, Tensor};
//! use spag_emulator::Emulator;
//! use spag_ops::{kernels, rms_norm};
//!
//! # fn main() -> candle_core::Result<()> {
//! let x = Tensor::ones((3, 64), candle_core::DType::BF16, &Device::Cpu)?;
//! let w = Tensor::ones(64, candle_core::DType::BF16, &Device::Cpu)?;
//! let y = kernels::using(Arc::new(Emulator::default()), || rms_norm::forward(&x, &w, 1e-5))?;
//! assert_eq!(y.dims(), [3, 64]);
//! # Ok(())
//! # }
//! ```

mod bytes;
mod dry;
mod gemm;
mod graph;
mod place;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Result, Tensor, bail};
use spag_ops::kernels::{Arg, CapturedGraph, Gemm, Kernels, Launch, Launched, Mark, PageLock, Transfer, Turns};
use spag_ops::pool;

pub use dry::Dry;
use graph::{EmulatedGraph, GraphOp};
pub use place::Place;

/// Shared memory of a block on an H100.
const SHARED_BYTES: usize = 227 << 10;

/// Runs kernels on CPU tensors.
///
/// Every launch uses another order of lanes, warps and blocks, and puts the guard page before or after the
/// arguments.
#[derive(Debug)]
pub struct Emulator {
    launches: Arc<AtomicU32>,
    /// Operations of the graph being captured, if any. As on a device, they may come from any thread.
    capturing: Mutex<Option<Vec<GraphOp>>>,
    /// The names of the operations of the last graph.
    captured: Mutex<Vec<String>>,
    /// Launched kernels and products, including captured ones.
    launched: Mutex<Launched>,
    turns: Turns,
    max_shared_bytes: usize,
    warpgroup_processors: Option<u32>,
}

impl Default for Emulator {
    /// As much shared memory as an H100, without its warpgroups.
    fn default() -> Self {
        Self::with_shared_bytes(SHARED_BYTES)
    }
}

impl Emulator {
    /// Emulates a device with this much shared memory per block.
    pub fn with_shared_bytes(max_shared_bytes: usize) -> Self {
        Self {
            launches: Arc::default(),
            capturing: Mutex::default(),
            captured: Mutex::default(),
            launched: Mutex::default(),
            turns: Turns::default(),
            max_shared_bytes,
            warpgroup_processors: None,
        }
    }

    /// Emulates a device of compute capability 9.0 with this many multiprocessors.
    pub fn with_warpgroups(processors: u32) -> Self {
        Self { warpgroup_processors: Some(processors), ..Self::default() }
    }

    /// The operations of the last captured graph, in order: kernel names, `gemm` and `copy`.
    pub fn last_graph(&self) -> Vec<String> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Appends an operation to the graph being captured. Returns `false` if no capture is active.
    fn capture_op(&self, op: impl FnOnce() -> GraphOp) -> bool {
        let mut capturing = self.capturing.lock().unwrap_or_else(PoisonError::into_inner);
        match capturing.as_mut() {
            Some(all) => {
                all.push(op());
                true
            }
            None => false,
        }
    }
}

#[repr(C)]
struct Argument {
    data: *mut c_void,
    bytes: usize,
    kind: u32,
    /// Offset of the address from a multiple of 16, in bytes.
    offset: u32,
    /// Letter of the type; see `cuda/emulator.h`.
    letter: u32,
}

/// The letter of an argument's type, which must match that of the kernel's parameter.
fn letter(arg: &Arg<'_>) -> char {
    let of = |tensor: &Tensor| match tensor.dtype() {
        DType::F32 => 'f',
        DType::BF16 => 'h',
        DType::U32 => 'u',
        DType::F64 => 'd',
        DType::I64 => 'i',
        DType::U8 => 'b',
        _ => '?',
    };
    match arg {
        Arg::In(tensor) => of(tensor),
        Arg::Out(tensor) => of(tensor).to_ascii_uppercase(),
        Arg::Null => '0',
        Arg::U32(_) => '4',
        Arg::U64(_) => '8',
        Arg::F32(_) => '.',
    }
}

unsafe extern "C" {
    fn emulator_launch(
        name: *const c_char,
        grid: *const u32,
        block: *const u32,
        shared_bytes: usize,
        arguments: *const Argument,
        count: usize,
        schedule: u32,
        error: *mut c_char,
        error_bytes: usize,
    ) -> c_int;
}

/// An argument during a launch. Memory holds its bytes and the offset of the view in its tensor.
enum Held {
    Read(Vec<u8>, usize),
    Written(Vec<u8>, usize),
    Value([u8; 8]),
}

impl Held {
    fn of(arg: &Arg<'_>) -> Result<Self> {
        Ok(match arg {
            Arg::In(tensor) => Self::Read(bytes::read(tensor)?, bytes::offset(tensor)),
            Arg::Out(tensor) => Self::Written(bytes::read(tensor)?, bytes::offset(tensor)),
            Arg::Null | Arg::U64(0) => Self::Value([0; 8]),
            Arg::U64(x) => Self::Value(x.to_ne_bytes()),
            Arg::U32(x) => Self::Value(u64::from(*x).to_ne_bytes()),
            Arg::F32(x) => Self::Value(u64::from(x.to_bits()).to_ne_bytes()),
        })
    }

    fn argument(&mut self, arg: &Arg<'_>) -> Argument {
        let (data, bytes, kind, offset) = match self {
            Self::Value(value) => (value.as_mut_ptr(), value.len(), 0, 0),
            Self::Read(bytes, offset) => (bytes.as_mut_ptr(), bytes.len(), 1, *offset),
            Self::Written(bytes, offset) => (bytes.as_mut_ptr(), bytes.len(), 2, *offset),
        };
        // Devices align allocations to 256 bytes; no kernel needs more than 16.
        Argument { data: data.cast(), bytes, kind, offset: (offset % 16) as u32, letter: letter(arg) as u32 }
    }
}

/// Runs a kernel; `schedule` selects the order of its threads.
fn run(launch: &Launch<'_>, schedule: u32) -> Result<()> {
    let mut held = launch.args.iter().map(Held::of).collect::<Result<Vec<_>>>()?;
    let arguments: Vec<Argument> = held.iter_mut().zip(launch.args).map(|(held, arg)| held.argument(arg)).collect();
    let name = CString::new(launch.kernel.as_str()).map_err(candle_core::Error::wrap)?;
    let (block, mut error) = ([launch.block, 1, 1], vec![0u8; 512]);
    // SAFETY: every argument points to memory of `held` with its length, used only by this call; the kernel works on
    // copies between guard pages.
    let failed = unsafe {
        emulator_launch(
            name.as_ptr(),
            launch.grid.as_ptr(),
            block.as_ptr(),
            launch.shared_bytes,
            arguments.as_ptr(),
            arguments.len(),
            schedule,
            error.as_mut_ptr().cast(),
            error.len(),
        )
    };
    if failed != 0 {
        let why = CStr::from_bytes_until_nul(&error).map(CStr::to_string_lossy).unwrap_or_default();
        bail!("emulated {launch}: {why}");
    }
    for (arg, held) in launch.args.iter().zip(held) {
        if let (Arg::Out(tensor), Held::Written(bytes, _)) = (arg, held) {
            bytes::write(tensor, &bytes)?;
        }
    }
    Ok(())
}

impl Kernels for Emulator {
    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        if launch.shared_bytes > self.max_shared_bytes {
            bail!("emulated {launch}: a block has at most {} bytes of shared memory", self.max_shared_bytes);
        }
        if launch.is_empty() {
            return Ok(());
        }
        self.launched.lock().unwrap_or_else(PoisonError::into_inner).kernels += 1;
        if self.capture_op(|| GraphOp::launch(launch)) {
            return Ok(());
        }
        run(launch, self.launches.fetch_add(1, Ordering::Relaxed))
    }

    fn gemm(&self, gemm: &Gemm<'_>) -> Result<()> {
        self.launched.lock().unwrap_or_else(PoisonError::into_inner).products += 1;
        if self.capture_op(|| GraphOp::gemm(gemm)) {
            return Ok(());
        }
        gemm::run(gemm)
    }

    fn copy(&self, from: &Tensor, to: &Tensor) -> Result<()> {
        if self.capture_op(|| GraphOp::Copy(from.clone(), to.clone())) {
            return Ok(());
        }
        bytes::write(to, &bytes::read(from)?)
    }

    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Option<Box<dyn CapturedGraph>>> {
        let capturing = || self.capturing.lock().unwrap_or_else(PoisonError::into_inner);
        *capturing() = Some(Vec::new());
        let result = work();
        let all = capturing().take().unwrap_or_default();
        result?;
        *self.captured.lock().unwrap_or_else(PoisonError::into_inner) = all.iter().map(|op| op.name().into()).collect();
        Ok(Some(Box::new(EmulatedGraph::new(all, self.launches.clone()))))
    }

    /// Filled with NaNs (all bits set) to detect elements that are never written.
    fn empty(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let tensor = match pool::spare(shape, dtype, &Device::Cpu) {
            Some(spare) => spare,
            None => Tensor::zeros(shape, dtype, &Device::Cpu)?,
        };
        self.poison(&tensor)?;
        Ok(tensor)
    }

    fn poison(&self, tensor: &Tensor) -> Result<()> {
        bytes::write(tensor, &vec![0xff; tensor.elem_count() * tensor.dtype().size_in_bytes()])
    }

    fn start_download(&self, from: &Tensor, to: &Tensor, _: &Mark) -> Result<Transfer> {
        bytes::write(to, &bytes::read(from)?)?;
        Ok(Transfer::done())
    }

    fn start_upload(&self, from: &Tensor, to: &Tensor, _: &Mark) -> Result<Transfer> {
        bytes::write(to, &bytes::read(from)?)?;
        Ok(Transfer::done())
    }

    fn page_lock(&self, _: &Tensor) -> Result<PageLock> {
        Ok(PageLock::none())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn launched(&self) -> Launched {
        *self.launched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turns(&self) -> &Turns {
        &self.turns
    }

    fn max_shared_bytes(&self) -> usize {
        self.max_shared_bytes
    }

    fn warpgroup_processors(&self) -> Option<u32> {
        self.warpgroup_processors
    }
}
