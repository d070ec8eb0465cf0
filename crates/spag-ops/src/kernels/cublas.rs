//! Matrix products by cuBLAS.

use std::ffi::c_void;
use std::sync::Arc;

use candle_core::cuda_backend::cudarc::cublas::{CudaBlas, result, sys};
use candle_core::cuda_backend::cudarc::driver::{CudaSlice, CudaStream, DevicePtr};
use candle_core::{CudaDevice, DType, Error, Result, Tensor, bail};

use super::gemm::{Accumulate, Gemm, Orientation};

/// Scratch memory of products, as NVIDIA recommends for Hopper GPUs; older ones need 4 MiB.
const WORKSPACE_BYTES: usize = 32 << 20;

/// The cuBLAS handle of a device, with workspace of our own.
pub(super) struct Cublas {
    handle: Arc<CudaBlas>,
    /// Used by the handle as long as this value lives, which is as long as the process.
    _workspace: CudaSlice<u8>,
}

/// Addresses of the operands and the output of a product.
pub(super) struct Addresses {
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) c: u64,
}

impl Cublas {
    /// Sets up candle's handle, whose stream is the device's; the context is bound to this thread.
    ///
    /// # Errors
    /// Too little memory, or an error of cuBLAS.
    pub(super) fn of(device: &CudaDevice, stream: &Arc<CudaStream>) -> Result<Self> {
        let handle = device.cublas_handle();
        // Without a workspace of its own a handle allocates one while a graph is captured, as a node of the graph, and
        // chooses other algorithms for captured products than for eager ones. One is enough: products on one stream are
        // ordered. Setting the handle's stream would take it away.
        // SAFETY: cuBLAS writes to the workspace before it reads it.
        let workspace = unsafe { stream.alloc::<u8>(WORKSPACE_BYTES) }.map_err(Error::wrap)?;
        let address = workspace.device_ptr(stream).0;
        // SAFETY: the handle is alive, and the memory, which has as many bytes, is kept as long.
        unsafe { sys::cublasSetWorkspace_v2(*handle.handle(), address as *mut c_void, WORKSPACE_BYTES) }
            .result()
            .map_err(|e| Error::Msg(format!("the workspace of cuBLAS: {e}")))?;
        // By default, products in bf16 whose k is split may round the parts to bf16 before they are added. Ops rely on sums
        // in f32 that are rounded once.
        let mode = sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
        // SAFETY: the handle is alive.
        unsafe { sys::cublasSetMathMode(*handle.handle(), mode) }
            .result()
            .map_err(|e| Error::Msg(format!("the rounding of cuBLAS: {e}")))?;
        Ok(Self { handle, _workspace: workspace })
    }

    /// Launches a product whose tensors are on the device at these addresses; the context is bound to this thread.
    pub(super) fn gemm(&self, gemm: &Gemm<'_>, at: &Addresses) -> Result<()> {
        let (m, k, n) = gemm.extents()?;
        let format = |tensor: &Tensor| match tensor.dtype() {
            DType::F32 => Ok(sys::cudaDataType_t::CUDA_R_32F),
            DType::BF16 => Ok(sys::cudaDataType_t::CUDA_R_16BF),
            other => bail!("{gemm}: {other:?}"),
        };
        let operation = |orientation: Orientation| match orientation {
            Orientation::Normal => sys::cublasOperation_t::CUBLAS_OP_N,
            Orientation::Transposed => sys::cublasOperation_t::CUBLAS_OP_T,
        };
        let int = |x: usize| i32::try_from(x).map_err(|_| Error::Msg(format!("{gemm}: {x} is too large")));
        let columns = |tensor: &Tensor| int(tensor.dim(1)?);
        let alpha = 1f32;
        let beta = if gemm.accumulate == Accumulate::Yes { 1f32 } else { 0f32 };
        // cuBLAS is column-major: a row-major matrix is its transpose, and cᵀ = bᵀ·aᵀ.
        // SAFETY: the extents have been checked against the tensors, which are at these addresses.
        let done = unsafe {
            result::gemm_ex(
                *self.handle.handle(),
                operation(gemm.b.orientation),
                operation(gemm.a.orientation),
                int(n)?,
                int(m)?,
                int(k)?,
                (&raw const alpha).cast::<c_void>(),
                at.b as *const c_void,
                format(gemm.b.tensor)?,
                columns(gemm.b.tensor)?,
                at.a as *const c_void,
                format(gemm.a.tensor)?,
                columns(gemm.a.tensor)?,
                (&raw const beta).cast::<c_void>(),
                at.c as *mut c_void,
                format(gemm.c)?,
                columns(gemm.c)?,
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        done.map_err(|e| Error::Msg(format!("cuBLAS {gemm}: {e}")))
    }
}
