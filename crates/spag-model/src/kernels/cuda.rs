//! Kernels on a CUDA device, through candle's stream and cuBLAS handle.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::cublas::{result as cublas, sys as blas};
use candle_core::cuda_backend::cudarc::driver::{CudaFunction, DevicePtr, LaunchConfig, PushKernelArg, sys};
use candle_core::cuda_backend::{CudaStorageSlice, DeviceId};
use candle_core::{CudaDevice, DType, Device, Error, Result, Storage, Tensor, bail};

use super::gemm::{Accumulate, Gemm, Orientation};
use super::{Arg, Kernels, Launch};

/// Shared memory that a block may use without asking for more.
const PLAIN_SHARED_BYTES: usize = 48 << 10;

/// A CUDA device as something that runs kernels.
pub struct CudaKernels {
    device: CudaDevice,
    functions: Mutex<HashMap<String, CudaFunction>>,
}

impl CudaKernels {
    /// The kernels of a device. Each device has one set, whose code is loaded as it is first used.
    ///
    /// # Errors
    /// None in practice.
    pub fn of(device: &CudaDevice) -> Result<Arc<Self>> {
        static ALL: Mutex<Vec<(DeviceId, Arc<CudaKernels>)>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kernels)) = all.iter().find(|(id, _)| *id == device.id()) {
            return Ok(kernels.clone());
        }
        let kernels = Arc::new(Self { device: device.clone(), functions: Mutex::default() });
        all.push((device.id(), kernels.clone()));
        Ok(kernels)
    }

    /// A kernel, loaded once and allowed all the shared memory that it asks for.
    fn function(&self, launch: &Launch<'_>) -> Result<CudaFunction> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(&launch.kernel) {
            return Ok(function.clone());
        }
        let loaded =
            self.device.get_or_load_custom_func(&launch.kernel, launch.module.name, launch.module.ptx)?.into_cuda_function();
        functions.insert(launch.kernel.clone(), loaded.clone());
        Ok(loaded)
    }

    /// The address of a contiguous tensor's first element, for work on the device's own stream.
    fn address(&self, tensor: &Tensor) -> Result<u64> {
        let (storage, layout) = tensor.storage_and_layout();
        let Storage::Cuda(storage) = &*storage else {
            bail!("a tensor on {:?} for a kernel on CUDA", tensor.device())
        };
        let Some((start, _)) = layout.contiguous_offsets() else { bail!("a tensor that is not contiguous ({layout:?})") };
        let stream = self.device.cuda_stream();
        // Work on one stream is in order, so that the address outlives the guard that would order it among streams.
        let base = match &storage.slice {
            CudaStorageSlice::F32(slice) => slice.device_ptr(&stream).0,
            CudaStorageSlice::BF16(slice) => slice.device_ptr(&stream).0,
            CudaStorageSlice::U32(slice) => slice.device_ptr(&stream).0,
            CudaStorageSlice::F64(slice) => slice.device_ptr(&stream).0,
            CudaStorageSlice::I64(slice) => slice.device_ptr(&stream).0,
            CudaStorageSlice::U8(slice) => slice.device_ptr(&stream).0,
            _ => bail!("a tensor of {:?} for a kernel", tensor.dtype()),
        };
        Ok(base + (start * tensor.dtype().size_in_bytes()) as u64)
    }

    fn start(&self, launch: &Launch<'_>) -> Result<()> {
        let function = self.function(launch)?;
        if launch.shared_bytes > PLAIN_SHARED_BYTES {
            function
                .set_attribute(
                    sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    i32::try_from(launch.shared_bytes).unwrap_or(i32::MAX),
                )
                .map_err(Error::wrap)?;
        }
        enum Value {
            U64(u64),
            U32(u32),
            F32(f32),
        }
        let values = launch
            .args
            .iter()
            .map(|arg| {
                Ok(match arg {
                    Arg::In(tensor) | Arg::Out(tensor) => Value::U64(self.address(tensor)?),
                    Arg::Null => Value::U64(0),
                    Arg::U64(x) => Value::U64(*x),
                    Arg::U32(x) => Value::U32(*x),
                    Arg::F32(x) => Value::F32(*x),
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let stream = self.device.cuda_stream();
        let mut builder = stream.launch_builder(&function);
        for value in &values {
            match value {
                Value::U64(x) => builder.arg(x),
                Value::U32(x) => builder.arg(x),
                Value::F32(x) => builder.arg(x),
            };
        }
        let [x, y, z] = launch.grid;
        let config = LaunchConfig {
            grid_dim: (x, y, z),
            block_dim: (launch.block, 1, 1),
            shared_mem_bytes: u32::try_from(launch.shared_bytes).unwrap_or(u32::MAX),
        };
        // SAFETY: the op that asks has checked shapes against what its kernel reads and writes; the emulator runs the
        // same launches with guarded memory in the tests.
        unsafe { builder.launch(config) }.map_err(Error::wrap)?;
        Ok(())
    }
}

impl Kernels for CudaKernels {
    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        match launch.is_empty() {
            true => Ok(()),
            false => self.start(launch).map_err(|e| Error::Msg(format!("CUDA {launch}: {e}"))),
        }
    }

    fn gemm(&self, gemm: &Gemm<'_>) -> Result<()> {
        let (m, k, n) = gemm.extents()?;
        if m == 0 || n == 0 {
            return Ok(());
        }
        let format = |tensor: &Tensor| match tensor.dtype() {
            DType::F32 => Ok(blas::cudaDataType_t::CUDA_R_32F),
            DType::BF16 => Ok(blas::cudaDataType_t::CUDA_R_16BF),
            other => bail!("{gemm}: {other:?}"),
        };
        let turned = |orientation: Orientation| match orientation {
            Orientation::Straight => blas::cublasOperation_t::CUBLAS_OP_N,
            Orientation::Transposed => blas::cublasOperation_t::CUBLAS_OP_T,
        };
        let int = |x: usize| i32::try_from(x).map_err(|_| Error::Msg(format!("{gemm}: {x} is too large")));
        let columns = |tensor: &Tensor| int(tensor.dim(1)?);
        let alpha = 1f32;
        let beta = if gemm.accumulate == Accumulate::Yes { 1f32 } else { 0f32 };
        let (a, b, c) = (self.address(gemm.a.tensor)?, self.address(gemm.b.tensor)?, self.address(gemm.c)?);
        let handle = self.device.cublas_handle();
        // cuBLAS counts columns first: what lies row by row is the transposed matrix to it, and cᵀ = bᵀ·aᵀ.
        // SAFETY: the extents have been checked against the tensors, which live on this device.
        let done = unsafe {
            cublas::gemm_ex(
                *handle.handle(),
                turned(gemm.b.orientation),
                turned(gemm.a.orientation),
                int(n)?,
                int(m)?,
                int(k)?,
                (&raw const alpha).cast::<c_void>(),
                b as *const c_void,
                format(gemm.b.tensor)?,
                columns(gemm.b.tensor)?,
                a as *const c_void,
                format(gemm.a.tensor)?,
                columns(gemm.a.tensor)?,
                (&raw const beta).cast::<c_void>(),
                c as *mut c_void,
                format(gemm.c)?,
                columns(gemm.c)?,
                blas::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                blas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        done.map_err(|e| Error::Msg(format!("cuBLAS {gemm}: {e}")))
    }

    fn empty(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        // SAFETY: the kernels that follow write every element before any is read; on the device, bits of any kind are
        // numbers of these formats.
        unsafe { Tensor::empty(shape, dtype, &Device::Cuda(self.device.clone())) }
    }
}
