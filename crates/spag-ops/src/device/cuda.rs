//! CUDA devices. Each is checked and opened once per process.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::driver::{DriverError, result, sys};
use candle_core::{CudaDevice, Device};

use super::checks::{Capability, CudaVersion, check_capability, check_driver, choose};
use super::{DeviceChoice, DeviceMemory, OpenDevice};
use crate::error::{Error, Result};

/// Compute capability targeted by this build.
const BUILT_FOR: &str = env!("SPAG_CUDA_COMPUTE_CAP");
/// Version of the compiler.
const BUILT_WITH: &str = env!("SPAG_CUDA_VERSION");

/// Open devices. Each has a single stream, which orders all work on it.
static OPEN: Mutex<BTreeMap<usize, OpenDevice>> = Mutex::new(BTreeMap::new());

/// Whether a GPU is visible.
pub(super) fn any_device() -> bool {
    result::init().is_ok() && result::device::get_count().is_ok_and(|count| count > 0)
}

/// Opens the device with this index, by default the local rank.
pub(super) fn open(choice: DeviceChoice, index: Option<usize>, local_rank: usize) -> Result<OpenDevice> {
    let refuse = |reason: String| choice.refused(reason);
    let built = |text: &str| text.parse::<u32>().map_err(|_| refuse(format!("{text:?} is not a version; rebuild")));
    let failed = |what: &'static str| move |e: DriverError| choice.refused(format!("{what}: {e}"));
    let (compiled_with, compiled_for) = (CudaVersion(built(BUILT_WITH)?), Capability(built(BUILT_FOR)?));

    let mut version = 0;
    // SAFETY: the driver writes one number to the pointer; the call needs no initialized driver.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(failed("the driver's version"))?;
    check_driver(CudaVersion(u32::try_from(version).unwrap_or(0)), compiled_with).map_err(refuse)?;
    let visible = match result::init().and_then(|()| result::device::get_count()) {
        Ok(count) => usize::try_from(count).unwrap_or(0),
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => 0,
        Err(e) => {
            return Err(refuse(format!(
                "the NVIDIA driver does not start ({e}); does nvidia-smi run on this machine, and in this container?"
            )));
        }
    };
    let index = choose(index, local_rank, visible).map_err(refuse)?;
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(open) = all.get(&index) {
        return Ok(open.clone());
    }

    let ordinal = i32::try_from(index).unwrap_or(i32::MAX);
    let gpu = result::device::get(ordinal).map_err(failed("the device"))?;
    let model = result::device::get_name(gpu).map_err(failed("the device's name"))?;
    let attribute = |which| {
        // SAFETY: the device comes from the driver.
        unsafe { result::device::get_attribute(gpu, which) }.map_err(failed("the device's compute capability"))
    };
    let major = attribute(sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(sys::CUdevice_attribute_enum::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let found = Capability(u32::try_from(major * 10 + minor).unwrap_or(0));
    check_capability(&model, found, compiled_for).map_err(refuse)?;

    // One stream per device rather than per thread, because passes move between threads.
    let cuda = CudaDevice::new_with_stream(index).map_err(|e| {
        refuse(format!(
            "{model} cannot be opened ({e}); another process may use it exclusively, or its memory may be full"
        ))
    })?;
    // SAFETY: this is the only stream of the device's tensors, and the device is opened once.
    unsafe { cuda.disable_event_tracking() };
    keep_freed_memory(gpu).map_err(failed("the device's memory pool"))?;
    let open = OpenDevice { device: Device::Cuda(cuda), name: format!("cuda:{index}"), model: Some(model) };
    all.insert(index, open.clone());
    Ok(open)
}

/// Lets the driver keep freed memory for later tensors: allocating it anew at every step takes longer than many
/// kernels.
fn keep_freed_memory(gpu: sys::CUdevice) -> std::result::Result<(), DriverError> {
    // SAFETY: the device comes from the driver.
    let pool = unsafe { result::device::get_default_mem_pool(gpu) }?;
    let mut threshold = u64::MAX;
    // SAFETY: the attribute is a 64-bit number; the driver reads it during the call.
    unsafe {
        sys::cuMemPoolSetAttribute(
            pool,
            sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
            (&raw mut threshold).cast::<c_void>(),
        )
    }
    .result()
}

/// Free memory of the driver, plus freed memory that it keeps for later tensors.
pub(super) fn memory(device: &CudaDevice) -> Result<DeviceMemory> {
    let failed = |e: DriverError| Error::Candle(candle_core::Error::wrap(e));
    let stream = device.cuda_stream();
    let context = stream.context();
    let (free, total) = context.mem_get_info().map_err(failed)?;
    let kept = || -> std::result::Result<u64, DriverError> {
        let gpu = result::device::get(i32::try_from(context.ordinal()).unwrap_or(i32::MAX))?;
        // SAFETY: the device comes from the driver.
        let pool = unsafe { result::device::get_default_mem_pool(gpu) }?;
        let attribute = |which| {
            let mut bytes = 0u64;
            // SAFETY: both attributes are 64-bit numbers; the driver writes them during the call.
            unsafe { sys::cuMemPoolGetAttribute(pool, which, (&raw mut bytes).cast::<c_void>()) }.result()?;
            Ok::<_, DriverError>(bytes)
        };
        let reserved = attribute(sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        let used = attribute(sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        Ok(reserved.saturating_sub(used))
    };
    Ok(DeviceMemory { free: free as u64 + kept().map_err(failed)?, total: total as u64 })
}

/// Peak memory of tensors.
pub(super) fn peak_memory(device: &CudaDevice) -> Result<u64> {
    let peak = || -> std::result::Result<u64, DriverError> {
        let ordinal = device.cuda_stream().context().ordinal();
        let gpu = result::device::get(i32::try_from(ordinal).unwrap_or(i32::MAX))?;
        // SAFETY: the device comes from the driver.
        let pool = unsafe { result::device::get_default_mem_pool(gpu) }?;
        let (mut bytes, which) = (0u64, sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_USED_MEM_HIGH);
        // SAFETY: the attribute is a 64-bit number; the driver writes it during the call.
        unsafe { sys::cuMemPoolGetAttribute(pool, which, (&raw mut bytes).cast::<c_void>()) }.result()?;
        Ok(bytes)
    };
    peak().map_err(|e| Error::Candle(candle_core::Error::wrap(e)))
}
