//! NCCL's communicator: the only place that calls it.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use candle_core::DType;
use cudarc::driver::CudaStream;
use cudarc::nccl::{Id, result, sys};

use crate::tcp::Place;
use crate::{Collective, Error, Result};

/// Bytes of NCCL's id.
pub(crate) const ID_LEN: usize = 128;

/// A communicator, until it is aborted or destroyed. Its lock is held during every call: NCCL wants one at a time, and
/// frees it at the end.
#[derive(Debug)]
pub(crate) struct Communicator(Mutex<Option<Handle>>);

#[derive(Clone, Copy, Debug)]
struct Handle(sys::ncclComm_t);

// SAFETY: NCCL ties a communicator to a device, not to a thread; every use is under the lock of `Communicator`.
unsafe impl Send for Handle {}

/// What a call works on: memory of this rank's device, which the caller keeps while the stream works on it.
pub(crate) struct Work<'a> {
    pub(crate) collective: &'a Collective,
    /// The address of the buffer's first element.
    pub(crate) address: u64,
    pub(crate) place: Place,
    pub(crate) stream: &'a CudaStream,
}

/// A new id, for rank 0 to give to all.
pub(crate) fn new_id() -> Result<[u8; ID_LEN]> {
    let id = Id::new().map_err(failed("a new id"))?;
    Ok(id.internal().map(|byte| byte as u8))
}

/// NCCL's version as it counts them, such as 22809 for 2.28.9.
pub(crate) fn version() -> Result<i32> {
    result::get_nccl_version().map_err(failed("its version"))
}

fn failed(what: &'static str) -> impl Fn(result::NcclError) -> Error {
    move |error| Error::Nccl { what, reason: format!("{:?}", error.0) }
}

/// The format in which NCCL sums numbers; `None` for those that are not summed.
pub(crate) fn summed(format: DType) -> Option<sys::ncclDataType_t> {
    match format {
        DType::F32 => Some(sys::ncclDataType_t::ncclFloat32),
        DType::F64 => Some(sys::ncclDataType_t::ncclFloat64),
        DType::BF16 => Some(sys::ncclDataType_t::ncclBfloat16),
        _ => None,
    }
}

impl Communicator {
    /// Meets the other ranks; returns when all have come. The stream's device is this rank's.
    ///
    /// # Errors
    /// [`Error::Nccl`].
    pub(crate) fn join(place: Place, id: [u8; ID_LEN], stream: &CudaStream) -> Result<Self> {
        bind(stream)?;
        let id = Id::uninit(id.map(|byte| byte as c_char));
        let mut handle: sys::ncclComm_t = std::ptr::null_mut();
        let id = sys::ncclUniqueId { internal: *id.internal() };
        // SAFETY: `handle` is a place for NCCL to write to, for as long as the call lasts; the device is bound.
        unsafe { result::comm_init_rank(&mut handle, place.size as c_int, id, place.rank as c_int) }
            .map_err(failed("joining"))?;
        Ok(Self(Mutex::new(Some(Handle(handle)))))
    }

    /// Hands a collective to the stream.
    ///
    /// # Errors
    /// [`Error::Nccl`], or a communicator that has been aborted.
    pub(crate) fn enqueue(&self, work: &Work<'_>) -> Result<()> {
        let handle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Handle(comm)) = *handle else { return Err(gone()) };
        let Some(buffer) = work.collective.buffer() else { return Ok(()) };
        let (format, length) = (buffer.dtype(), buffer.elem_count());
        let stream = work.stream.cu_stream().cast();
        let whole = work.address as *mut c_void;
        let part = length / work.place.size;
        let own = (work.address + (work.place.rank * part * format.size_in_bytes()) as u64) as *mut c_void;
        let sum = sys::ncclRedOp_t::ncclSum;
        // Numbers that are only moved are bytes.
        let byte = sys::ncclDataType_t::ncclUint8;
        let numbers = || summed(format).ok_or_else(|| Error::Tensor(format!("{} is not summed", format.as_str())));
        let result = match work.collective {
            Collective::AllReduce(_) => {
                let numbers = numbers()?;
                // SAFETY: `whole` is the device memory of a flat buffer of `length` numbers of this format, which the
                // caller keeps alive and leaves alone until the stream has done this; sums in place are allowed.
                unsafe { result::all_reduce(whole, whole, length, numbers, sum, comm, stream) }
            }
            Collective::ReduceScatter(_) => {
                let numbers = numbers()?;
                // SAFETY: as above; the own part lies within the buffer at rank · part, where NCCL wants it to work in
                // place, as `Collective::check` has found the length to be a multiple of the ranks.
                unsafe { result::reduce_scatter(whole, own, part, numbers, sum, comm, stream) }
            }
            Collective::AllGather(_) => {
                let bytes = part * format.size_in_bytes();
                // SAFETY: as above, in bytes.
                unsafe { result::all_gather(own, whole, bytes, byte, comm, stream) }
            }
            Collective::Broadcast(_, root) => {
                let bytes = length * format.size_in_bytes();
                // SAFETY: as above, in bytes; `Collective::check` has found the root to exist.
                unsafe { result::broadcast(whole, whole, bytes, byte, *root as c_int, comm, stream) }
            }
            Collective::Barrier => return Ok(()),
        };
        result.map(drop).map_err(failed(work.collective.name()))
    }

    /// What has gone wrong since it was handed over, if anything; `Ok` as well while another thread calls NCCL.
    ///
    /// # Errors
    /// [`Error::Nccl`].
    pub(crate) fn check(&self) -> Result<()> {
        let Ok(handle) = self.0.try_lock() else { return Ok(()) };
        let Some(Handle(comm)) = *handle else { return Ok(()) };
        let mut found = sys::ncclResult_t::ncclSuccess;
        // SAFETY: the communicator is alive, as it is still in its place; `found` can be written to during the call.
        let asked = unsafe { sys::ncclCommGetAsyncError(comm, &mut found) };
        match (asked, found) {
            (sys::ncclResult_t::ncclSuccess, sys::ncclResult_t::ncclSuccess | sys::ncclResult_t::ncclInProgress) => {
                Ok(())
            }
            (sys::ncclResult_t::ncclSuccess, other) | (other, _) => {
                Err(Error::Nccl { what: "a collective under way", reason: format!("{other:?}") })
            }
        }
    }

    /// Ends what is under way, without results. Says whether it is done: another thread may be inside a call.
    pub(crate) fn abort(&self) -> bool {
        let Ok(mut handle) = self.0.try_lock() else { return false };
        if let Some(Handle(comm)) = handle.take() {
            // SAFETY: the communicator was in its place, so nobody has ended it, and is not there any more, so nobody
            // will use it again. A failure leaves nothing to be done: the run is over.
            let _ = unsafe { result::comm_abort(comm) };
        }
        true
    }

    /// Ends it in order, after everything that was handed over is done.
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

fn gone() -> Error {
    Error::Nccl { what: "a collective", reason: "the communicator has been aborted".into() }
}

/// Makes the stream's device the calling thread's.
pub(crate) fn bind(stream: &CudaStream) -> Result<()> {
    stream.context().bind_to_thread().map_err(driver("the device"))
}

/// An error of the CUDA driver.
pub(crate) fn driver(what: &'static str) -> impl Fn(cudarc::driver::DriverError) -> Error {
    move |error| Error::Nccl { what, reason: error.to_string() }
}
