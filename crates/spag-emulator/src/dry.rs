//! Dry runs: launches that are validated but not executed, for shapes that are too large to emulate.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Result, Tensor, bail};
use half::bf16;
use half::vec::HalfBitsVecExt;
use spag_ops::kernels::{Arg, Gemm, Kernels, Launch, Mark, PageLock, Transfer, Turns, check_copy};
use spag_ops::pool;

use crate::letter;

/// A dry-run device without memory or execution: it checks every launch against the device's limits and the kernel's
/// parameters, and every matrix product against the sizes that cuBLAS supports.
///
/// Tensors are zeros whose pages are mapped on first use, so unused ones cost nothing.
#[derive(Debug)]
pub struct Dry {
    max_shared_bytes: usize,
    warpgroup_processors: Option<u32>,
    turns: Turns,
    large: Arc<Mutex<BTreeSet<String>>>,
}

/// Number of elements from which a tensor's indices overflow an `int`.
const LARGE: usize = 1 << 31;
/// Maximum blocks along each axis of a grid.
const MOST_BLOCKS: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
/// Maximum threads per block.
const MOST_THREADS: u32 = 1024;

unsafe extern "C" {
    fn emulator_check(name: *const c_char, letters: *const c_char, error: *mut c_char, error_bytes: usize) -> c_int;
}

impl Dry {
    /// A device with this much shared memory per block.
    pub fn with_shared_bytes(max_shared_bytes: usize) -> Self {
        Self { max_shared_bytes, warpgroup_processors: None, turns: Turns::default(), large: Arc::default() }
    }

    /// The same device with compute capability 9.0 and this many multiprocessors.
    #[must_use]
    pub fn with_warpgroups(self, processors: u32) -> Self {
        Self { warpgroup_processors: Some(processors), ..self }
    }

    /// The kernels that received a tensor of 2³¹ elements or more. They need 64-bit indices, or must index vectors.
    pub fn kernels_of_large_tensors(&self) -> Vec<String> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn check(&self, launch: &Launch<'_>) -> Result<()> {
        if launch.grid.iter().zip(MOST_BLOCKS).any(|(blocks, most)| *blocks > most) {
            bail!("{launch}: a grid has at most {MOST_BLOCKS:?} blocks");
        }
        if launch.block == 0 || launch.block > MOST_THREADS || !launch.block.is_multiple_of(32) {
            bail!("{launch}: a block has whole warps, and at most {MOST_THREADS} threads");
        }
        if launch.shared_bytes > self.max_shared_bytes {
            bail!("{launch}: a block has at most {} bytes of shared memory", self.max_shared_bytes);
        }
        for arg in launch.args {
            let (Arg::In(tensor) | Arg::Out(tensor)) = arg else { continue };
            if !tensor.is_contiguous() {
                bail!("{launch}: a tensor that is not contiguous ({:?})", tensor.layout());
            }
            if tensor.elem_count() >= LARGE {
                self.large.lock().unwrap_or_else(PoisonError::into_inner).insert(launch.kernel.clone());
            }
        }
        let letters: String = launch.args.iter().map(letter).collect();
        let text = |text: &str| CString::new(text).map_err(candle_core::Error::wrap);
        let (name, letters, mut error) = (text(&launch.kernel)?, text(&letters)?, vec![0u8; 512]);
        // SAFETY: both strings are zero-terminated, and the message is truncated to the length of its buffer.
        let failed = unsafe { emulator_check(name.as_ptr(), letters.as_ptr(), error.as_mut_ptr().cast(), error.len()) };
        if failed != 0 {
            let why = CStr::from_bytes_until_nul(&error).map(CStr::to_string_lossy).unwrap_or_default();
            bail!("{launch}: {why}");
        }
        Ok(())
    }
}

impl Kernels for Dry {
    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        if launch.is_empty() { Ok(()) } else { self.check(launch) }
    }

    fn gemm(&self, gemm: &Gemm<'_>) -> Result<()> {
        let (m, k, n) = gemm.extents()?;
        if [m, k, n].iter().any(|size| i32::try_from(*size).is_err()) {
            bail!("{gemm}: cuBLAS takes sizes below 2³¹");
        }
        Ok(())
    }

    fn empty(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        if let Some(spare) = pool::spare(shape, dtype, &Device::Cpu) {
            return Ok(spare);
        }
        match dtype {
            // candle writes bf16 zeros explicitly, but maps integer zeros.
            DType::BF16 => {
                let zeros: Vec<bf16> = vec![0u16; shape.iter().product()].reinterpret_into();
                Tensor::from_vec(zeros, shape, &Device::Cpu)
            }
            _ => Tensor::zeros(shape, dtype, &Device::Cpu),
        }
    }

    fn copy(&self, from: &Tensor, to: &Tensor) -> Result<()> {
        check_copy(from, to)
    }

    fn start_download(&self, from: &Tensor, to: &Tensor, _: &Mark) -> Result<Transfer> {
        check_copy(from, to)?;
        Ok(Transfer::done())
    }

    fn start_upload(&self, from: &Tensor, to: &Tensor, _: &Mark) -> Result<Transfer> {
        check_copy(from, to)?;
        Ok(Transfer::done())
    }

    fn page_lock(&self, _: &Tensor) -> Result<PageLock> {
        Ok(PageLock::none())
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

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}
