//! Kernels on a CUDA device, launched through candle's stream.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::driver::{
    CudaFunction, CudaGraph, CudaModule, CudaStream, DevicePtr, result, sys,
};
use candle_core::cuda_backend::cudarc::nvrtc::Ptx;
use candle_core::cuda_backend::{CudaStorageSlice, DeviceId};
use candle_core::{CpuStorage, CudaDevice, DType, Device, Error, Result, Storage, Tensor, bail};
use half::bf16;

use super::capture::{CaptureStream, capture};
use super::cublas::{Addresses, Cublas};
use super::{Arg, CapturedGraph, Gemm, Kernels, Launch, Launched, Mark, PageLock, Transfer, Turns, check_copy};
use crate::cpu::{self, Stored};
use crate::pool;

/// Shared memory per block available without opting in.
const PLAIN_SHARED_BYTES: usize = 48 << 10;

/// Kernels of a CUDA device.
pub struct CudaKernels {
    device: CudaDevice,
    /// The device's stream, which orders all work except copies.
    stream: Arc<CudaStream>,
    cublas: Cublas,
    /// Maximum shared memory of a block, in bytes, if the kernel opts in.
    max_shared_bytes: usize,
    warpgroup_processors: Option<u32>,
    turns: Turns,
    loaded: Mutex<Loaded>,
    /// Launched kernels and products.
    launched: [AtomicU64; 2],
    poisoned: AtomicBool,
    /// Streams for downloads and uploads: each direction of the bus has its own.
    down: Arc<CudaStream>,
    up: Arc<CudaStream>,
}

/// Modules and kernels loaded onto the device.
#[derive(Default)]
struct Loaded {
    modules: HashMap<&'static str, Arc<CudaModule>>,
    /// Kernels by name, each with its opted-in shared memory per block.
    functions: HashMap<String, (CudaFunction, usize)>,
}

/// Page-locked memory. Unregistered on drop, before its tensor is freed.
struct Registered {
    at: usize,
    stream: Arc<CudaStream>,
    _owner: Tensor,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.stream.context().bind_to_thread().is_ok() {
            // SAFETY: the memory was registered and is unregistered only here. A failure leaves it page-locked.
            let _ = unsafe { sys::cuMemHostUnregister(self.at as *mut c_void) };
        }
    }
}

/// Address and size of a contiguous CPU tensor.
fn host_memory(tensor: &Tensor) -> Result<(usize, usize)> {
    let (storage, layout) = tensor.storage_and_layout();
    let (Storage::Cpu(storage), Some((start, _))) = (&*storage, layout.contiguous_offsets()) else {
        bail!("a contiguous tensor on the CPU was expected, not {:?} on {:?}", tensor.dims(), tensor.device())
    };
    let base = match storage {
        CpuStorage::F32(values) => values.as_ptr() as usize,
        CpuStorage::BF16(values) => values.as_ptr() as usize,
        _ => bail!("tensors of f32 and bf16 are copied between host and device, not of {:?}", tensor.dtype()),
    };
    let each = tensor.dtype().size_in_bytes();
    Ok((base + start * each, tensor.elem_count() * each))
}

impl CudaKernels {
    /// The kernels of a device. There is one set per device; modules are loaded on first use.
    ///
    /// # Errors
    /// The copy streams could not be created, or too little memory for the matrix product workspace.
    pub fn of(device: &CudaDevice) -> Result<Arc<Self>> {
        static ALL: Mutex<Vec<(DeviceId, Arc<CudaKernels>)>> = Mutex::new(Vec::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kernels)) = all.iter().find(|(id, _)| *id == device.id()) {
            return Ok(kernels.clone());
        }
        let main = device.cuda_stream();
        let context = main.context();
        context.bind_to_thread().map_err(Error::wrap)?;
        let stream = || context.new_stream().map_err(Error::wrap);
        use sys::CUdevice_attribute_enum as Attribute;
        let attribute = |which| context.attribute(which).map_err(Error::wrap);
        let max_shared_bytes = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let capability = (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let processors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let kernels = Arc::new(Self {
            device: device.clone(),
            cublas: Cublas::of(&main)?,
            stream: main.clone(),
            max_shared_bytes: usize::try_from(max_shared_bytes).unwrap_or(PLAIN_SHARED_BYTES),
            warpgroup_processors: (capability == (9, 0)).then_some(processors.cast_unsigned()),
            turns: Turns::default(),
            loaded: Mutex::default(),
            launched: Default::default(),
            poisoned: AtomicBool::new(false),
            down: stream()?,
            up: stream()?,
        });
        all.push((device.id(), kernels.clone()));
        Ok(kernels)
    }

    /// Binds the context to this thread, for driver and cuBLAS calls without a stream argument.
    fn bind(&self) -> Result<()> {
        self.up.context().bind_to_thread().map_err(Error::wrap)
    }

    /// Loads a kernel once and raises its shared memory limit if needed. The context is bound to this thread.
    fn function(&self, launch: &Launch<'_>) -> Result<sys::CUfunction> {
        let Loaded { modules, functions } = &mut *self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let Launch { module, kernel, shared_bytes, .. } = launch;
        let (function, allowed) = match functions.get_mut(kernel) {
            Some(loaded) => loaded,
            None => {
                let module = match modules.get(module.name) {
                    Some(loaded) => loaded,
                    None => {
                        let image = Ptx::from_binary(module.image.to_vec());
                        let loaded = self.up.context().load_module(image).map_err(Error::wrap)?;
                        modules.entry(module.name).or_insert(loaded)
                    }
                };
                let function = module.load_function(kernel).map_err(Error::wrap)?;
                functions.entry(kernel.clone()).or_insert((function, PLAIN_SHARED_BYTES))
            }
        };
        if shared_bytes > allowed {
            let bytes = i32::try_from(*shared_bytes).unwrap_or(i32::MAX);
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            function.set_attribute(attribute, bytes).map_err(Error::wrap)?;
            *allowed = *shared_bytes;
        }
        // Modules are never unloaded.
        Ok(function.cu_function())
    }

    /// Address of a contiguous tensor, for work on the device's main stream.
    fn address(&self, tensor: &Tensor) -> Result<u64> {
        let (storage, layout) = tensor.storage_and_layout();
        let Storage::Cuda(storage) = &*storage else { bail!("a tensor on {:?} for a kernel on CUDA", tensor.device()) };
        let Some((start, _)) = layout.contiguous_offsets() else {
            bail!("a tensor that is not contiguous ({layout:?})")
        };
        let stream = &self.stream;
        // Work on one stream is ordered, so the address may outlive the guard, which orders work across streams.
        let base = match &storage.slice {
            CudaStorageSlice::F32(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::BF16(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::U32(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::F64(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::I64(slice) => slice.device_ptr(stream).0,
            CudaStorageSlice::U8(slice) => slice.device_ptr(stream).0,
            _ => bail!("a tensor of {:?} for a kernel", tensor.dtype()),
        };
        Ok(base + (start * tensor.dtype().size_in_bytes()) as u64)
    }

    /// Starts a copy from device memory at `address` to `to`.
    fn copy_down<T>(&self, address: u64, to: &mut [T]) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller has checked the extents, and creates a `Transfer` that keeps the memory until the copy has
        // ended.
        unsafe { result::memcpy_dtoh_async(to, address, self.down.cu_stream()) }.map_err(Error::wrap)
    }

    /// Starts a copy of `from` to device memory at `address`.
    fn copy_up<T>(&self, from: &[T], address: u64) -> Result<()> {
        self.bind()?;
        // SAFETY: as above.
        unsafe { result::memcpy_htod_async(address, from, self.up.cu_stream()) }.map_err(Error::wrap)
    }

    /// A mark after all work of a stream.
    fn mark_of(stream: &CudaStream) -> Result<Mark> {
        Ok(Mark { event: Some(stream.record_event(None).map_err(Error::wrap)?) })
    }

    /// Orders later work of a stream after a mark.
    fn order(stream: &CudaStream, after: &Mark) -> Result<()> {
        after.event.as_ref().map_or(Ok(()), |event| stream.wait(event).map_err(Error::wrap))
    }

    fn start(&self, launch: &Launch<'_>) -> Result<()> {
        self.bind()?;
        let function = self.function(launch)?;
        // The driver reads as many bytes of a value as its parameter has. Hosts of GPUs are little-endian, so the first
        // bytes are the low ones.
        let value = |arg: &Arg<'_>| {
            Ok(match arg {
                Arg::In(tensor) | Arg::Out(tensor) => self.address(tensor)?,
                Arg::Null => 0,
                Arg::U64(x) => *x,
                Arg::U32(x) => u64::from(*x),
                Arg::F32(x) => u64::from(x.to_bits()),
            })
        };
        let mut values = launch.args.iter().map(value).collect::<Result<Vec<u64>>>()?;
        let mut pointers: Vec<*mut c_void> = values.iter_mut().map(|value| (&raw mut *value).cast()).collect();
        let [x, y, z] = launch.grid;
        let shared_bytes = u32::try_from(launch.shared_bytes).unwrap_or(u32::MAX);
        // SAFETY: the op has checked shapes against what its kernel reads and writes; tests run the same launches in
        // the emulator with guarded memory.
        unsafe {
            result::launch_kernel(
                function,
                (x, y, z),
                (launch.block, 1, 1),
                shared_bytes,
                self.stream.cu_stream(),
                &mut pointers,
            )
        }
        .map_err(Error::wrap)
    }
}

impl Kernels for CudaKernels {
    fn poison_outputs(&self) {
        self.poisoned.store(true, Ordering::Relaxed);
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        if launch.is_empty() {
            return Ok(());
        }
        self.launched[0].fetch_add(1, Ordering::Relaxed);
        self.start(launch).map_err(|e| Error::Msg(format!("CUDA {launch}: {e}")))
    }

    fn gemm(&self, gemm: &Gemm<'_>) -> Result<()> {
        let (m, _, n) = gemm.extents()?;
        if m == 0 || n == 0 {
            return Ok(());
        }
        self.launched[1].fetch_add(1, Ordering::Relaxed);
        self.bind()?;
        let address = |tensor| self.address(tensor);
        let at = Addresses { a: address(gemm.a.tensor)?, b: address(gemm.b.tensor)?, c: address(gemm.c)? };
        self.cublas.gemm(gemm, &at)
    }

    fn poison(&self, tensor: &Tensor) -> Result<()> {
        let bytes = tensor.elem_count() * tensor.dtype().size_in_bytes();
        if bytes == 0 || !self.poisoned.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the memory belongs to the tensor and has that many bytes; work on the stream is ordered.
        unsafe { result::memset_d8_async(self.address(tensor)?, 0xff, bytes, self.stream.cu_stream()) }
            .map_err(Error::wrap)
    }

    fn empty(&self, shape: &[usize], dtype: DType) -> Result<Tensor> {
        let device = Device::Cuda(self.device.clone());
        if let Some(spare) = pool::spare(shape, dtype, &device) {
            return Ok(spare);
        }
        // SAFETY: every element is written by kernels before it is read, and every bit pattern is a valid number.
        let tensor = unsafe { Tensor::empty(shape, dtype, &device) }?;
        self.poison(&tensor)?;
        Ok(tensor)
    }

    fn copy(&self, from: &Tensor, to: &Tensor) -> Result<()> {
        check_copy(from, to)?;
        self.bind()?;
        let bytes = from.elem_count() * from.dtype().size_in_bytes();
        let (from, to) = (self.address(from)?, self.address(to)?);
        // SAFETY: both tensors have that many bytes on this device, and work on its stream is ordered.
        unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream.cu_stream()) }.map_err(Error::wrap)
    }

    fn mark(&self) -> Result<Mark> {
        Self::mark_of(&self.stream)
    }

    fn order_after(&self, mark: &Mark) -> Result<()> {
        Self::order(&self.stream, mark)
    }

    fn start_download(&self, from: &Tensor, to: &Tensor, after: &Mark) -> Result<Transfer> {
        check_copy(from, to)?;
        Self::order(&self.down, after)?;
        let address = self.address(from)?;
        match to.dtype() {
            DType::BF16 => bf16::update(to, |to| self.copy_down(address, to)),
            _ => cpu::update(to, |to| self.copy_down(address, to)),
        }?;
        Ok(Transfer::until(Self::mark_of(&self.down)?, from, to))
    }

    fn start_upload(&self, from: &Tensor, to: &Tensor, after: &Mark) -> Result<Transfer> {
        check_copy(from, to)?;
        Self::order(&self.up, after)?;
        let address = self.address(to)?;
        match from.dtype() {
            DType::BF16 => bf16::read(from, |from| self.copy_up(from, address)),
            _ => cpu::read(from, |from| self.copy_up(from, address)),
        }?;
        Ok(Transfer::until(Self::mark_of(&self.up)?, from, to))
    }

    fn page_lock(&self, tensor: &Tensor) -> Result<PageLock> {
        let (at, bytes) = host_memory(tensor)?;
        if bytes == 0 {
            // The driver refuses to register it.
            return Ok(PageLock::none());
        }
        self.bind()?;
        // SAFETY: the tensor keeps the memory alive, and the guard unregisters it.
        unsafe { sys::cuMemHostRegister_v2(at as *mut c_void, bytes, 0) }.result().map_err(Error::wrap)?;
        Ok(PageLock(Some(Box::new(Registered { at, stream: self.up.clone(), _owner: tensor.clone() }))))
    }

    fn synchronize(&self) -> Result<()> {
        self.stream.synchronize().map_err(Error::wrap)
    }

    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Option<Box<dyn CapturedGraph>>> {
        let graph = capture(&self.stream, work)?;
        Ok(graph.map(|graph| Box::new(Graph(graph)) as Box<dyn CapturedGraph>))
    }

    fn launched(&self) -> Launched {
        let [kernels, products] = [0, 1].map(|which| self.launched[which].load(Ordering::Relaxed));
        Launched { kernels, products }
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

impl CaptureStream for Arc<CudaStream> {
    type Graph = CudaGraph;

    fn begin(&self) -> Result<()> {
        // Threads without a turn may still wait for events and copy on other streams.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        self.begin_capture(mode).map_err(Error::wrap)
    }

    fn end(&self) -> Result<Option<CudaGraph>> {
        let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        self.end_capture(flags).map_err(Error::wrap)
    }

    fn take_error(&self) -> Result<()> {
        self.context().check_err().map_err(Error::wrap)
    }
}

/// An instantiated CUDA graph.
struct Graph(CudaGraph);

// SAFETY: a graph may be used from any thread, one at a time; it is owned, and `CapturedGraph` is not shared between
// threads.
unsafe impl Send for Graph {}

impl CapturedGraph for Graph {
    fn replay(&self) -> Result<()> {
        self.0.launch().map_err(Error::wrap)
    }
}
