//! NCCL's communicator. All NCCL calls are in this file.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use candle_core::DType;
use cudarc::driver::CudaStream;
use cudarc::nccl::{Id, result, sys};

use crate::cuda::bind;
use crate::tcp::RingPosition;
use crate::{Collective, Error, Result};

/// Bytes of NCCL's unique ID.
pub(crate) const ID_LEN: usize = 128;

/// A communicator; `None` after it was aborted or destroyed. The lock is held during every call, since NCCL allows one
/// call at a time and frees the communicator at the end.
#[derive(Debug)]
pub(crate) struct Communicator(Mutex<Option<Handle>>);

#[derive(Clone, Copy, Debug)]
struct Handle(sys::ncclComm_t);

// SAFETY: NCCL ties a communicator to a device, not to a thread; every use is under the lock of `Communicator`.
unsafe impl Send for Handle {}

/// A collective on device memory of this rank. The caller must keep the memory until the stream has completed it.
pub(crate) struct Operation<'a> {
    pub(crate) collective: &'a Collective,
    /// The address of the buffer's first element.
    pub(crate) address: u64,
    pub(crate) position: RingPosition,
    pub(crate) stream: &'a CudaStream,
}

/// A new unique ID, which rank 0 sends to all ranks.
pub(crate) fn new_id() -> Result<[u8; ID_LEN]> {
    let id = Id::new().map_err(failed("a new unique ID"))?;
    Ok(id.internal().map(|byte| byte as u8))
}

/// NCCL's version code, such as 22809 for 2.28.9.
pub(crate) fn version() -> Result<i32> {
    result::get_nccl_version().map_err(failed("its version"))
}

fn failed(what: &'static str) -> impl Fn(result::NcclError) -> Error {
    move |error| Error::Nccl { what, reason: format!("{:?}", error.0) }
}

/// NCCL's type for sums of this format; `None` if unsupported.
pub(crate) fn sum_type(format: DType) -> Option<sys::ncclDataType_t> {
    match format {
        DType::F32 => Some(sys::ncclDataType_t::ncclFloat32),
        DType::F64 => Some(sys::ncclDataType_t::ncclFloat64),
        DType::BF16 => Some(sys::ncclDataType_t::ncclBfloat16),
        _ => None,
    }
}

impl Communicator {
    /// Joins the other ranks on the stream's device; returns when all have joined.
    ///
    /// # Errors
    /// [`Error::Nccl`].
    pub(crate) fn join(position: RingPosition, id: [u8; ID_LEN], stream: &CudaStream) -> Result<Self> {
        bind(stream)?;
        let id = Id::uninit(id.map(|byte| byte as c_char));
        let mut handle: sys::ncclComm_t = std::ptr::null_mut();
        let id = sys::ncclUniqueId { internal: *id.internal() };
        // SAFETY: `handle` is valid for writes during the call; the device is bound to this thread.
        unsafe { result::comm_init_rank(&mut handle, position.size as c_int, id, position.rank as c_int) }
            .map_err(failed("joining"))?;
        Ok(Self(Mutex::new(Some(Handle(handle)))))
    }

    /// Enqueues a collective on the stream.
    ///
    /// # Errors
    /// [`Error::Nccl`], or the communicator has been aborted.
    pub(crate) fn enqueue(&self, operation: &Operation<'_>) -> Result<()> {
        let handle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Handle(comm)) = *handle else { return Err(aborted()) };
        let Some(buffer) = operation.collective.buffer() else { return Ok(()) };
        let (format, length) = (buffer.dtype(), buffer.elem_count());
        let stream = operation.stream.cu_stream().cast();
        let whole = operation.address as *mut c_void;
        let part = length / operation.position.size;
        let own = (operation.address + (operation.position.rank * part * format.size_in_bytes()) as u64) as *mut c_void;
        let sum = sys::ncclRedOp_t::ncclSum;
        // Copies move bytes, whatever the format.
        let byte = sys::ncclDataType_t::ncclUint8;
        let numbers = || sum_type(format).ok_or_else(|| Error::Tensor(format!("{} is not summed", format.as_str())));
        let result = match operation.collective {
            Collective::AllReduce(_) => {
                let numbers = numbers()?;
                // SAFETY: `whole` is the device memory of a flat buffer of `length` numbers of this format, which the
                // caller keeps alive and does not use until the stream has completed this; sums in place are allowed.
                unsafe { result::all_reduce(whole, whole, length, numbers, sum, comm, stream) }
            }
            Collective::ReduceScatter(_) => {
                let numbers = numbers()?;
                // SAFETY: as above; the own part is within the buffer at rank · part, which NCCL needs to work in place,
                // since `Collective::check` has ensured that the length is a multiple of the world size.
                unsafe { result::reduce_scatter(whole, own, part, numbers, sum, comm, stream) }
            }
            Collective::AllGather(_) => {
                let bytes = part * format.size_in_bytes();
                // SAFETY: as above, in bytes.
                unsafe { result::all_gather(own, whole, bytes, byte, comm, stream) }
            }
            Collective::Broadcast(_, root) => {
                let bytes = length * format.size_in_bytes();
                // SAFETY: as above, in bytes; `Collective::check` has ensured that the root exists.
                unsafe { result::broadcast(whole, whole, bytes, byte, *root as c_int, comm, stream) }
            }
            Collective::Barrier => return Ok(()),
        };
        result.map(drop).map_err(failed(operation.collective.name()))
    }

    /// Checks for asynchronous errors; returns `Ok` while another thread is calling NCCL.
    ///
    /// # Errors
    /// [`Error::Nccl`].
    pub(crate) fn check(&self) -> Result<()> {
        let Ok(handle) = self.0.try_lock() else { return Ok(()) };
        let Some(Handle(comm)) = *handle else { return Ok(()) };
        let mut found = sys::ncclResult_t::ncclSuccess;
        // SAFETY: the communicator is alive, as it has not been taken; `found` is valid for writes during the call.
        let status = unsafe { sys::ncclCommGetAsyncError(comm, &mut found) };
        match (status, found) {
            (sys::ncclResult_t::ncclSuccess, sys::ncclResult_t::ncclSuccess | sys::ncclResult_t::ncclInProgress) => {
                Ok(())
            }
            (sys::ncclResult_t::ncclSuccess, other) | (other, _) => {
                Err(Error::Nccl { what: "a pending collective", reason: format!("{other:?}") })
            }
        }
    }

    /// Aborts pending collectives, without results. Returns `false` if another thread is inside a call; try again
    /// then.
    pub(crate) fn abort(&self) -> bool {
        let Ok(mut handle) = self.0.try_lock() else { return false };
        if let Some(Handle(comm)) = handle.take() {
            // SAFETY: the communicator was not ended before, and no later call can use it, as it has been taken. A
            // failure can be ignored, since the run is over.
            let _ = unsafe { result::comm_abort(comm) };
        }
        true
    }

    /// Ends the communicator after all enqueued collectives have completed.
    pub(crate) fn destroy(&self) {
        let mut handle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Handle(comm)) = handle.take() {
            // SAFETY: as in `abort`.
            let _ = unsafe { result::comm_finalize(comm) };
            // SAFETY: as in `abort`; finalized above.
            let _ = unsafe { result::comm_destroy(comm) };
        }
    }
}

fn aborted() -> Error {
    Error::Nccl { what: "a collective", reason: "the communicator has been aborted".into() }
}
