//! Collectives of a simulated group on a GPU.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::Tensor;
use cudarc::driver::{CudaStream, result, sys};

use super::wire::Lane;
use crate::cuda::{Enqueued, StreamPriority, address, bind, driver, new_stream};
use crate::{Collective, Pending, Result};

/// Bytes that the driver locks at least.
const PAGE: usize = 4096;

/// A stream of collectives, each of which waits for a link.
#[derive(Debug)]
pub(super) struct DeviceLane {
    compute: Arc<CudaStream>,
    stream: Arc<CudaStream>,
    sent: Arc<Sent>,
    /// Collectives on the stream. The lock keeps their numbers in the stream's order.
    started: Mutex<u32>,
}

/// The number of collectives that the link has carried, which the stream waits for. On a page of its own, locked for the device.
#[derive(Debug)]
#[repr(C, align(4096))]
struct Sent(AtomicU32);

const _: () = assert!(size_of::<Sent>() == PAGE);

impl Sent {
    fn new() -> Result<Arc<Self>> {
        let sent = Arc::new(Self(AtomicU32::new(0)));
        // SAFETY: a page of this value, which does not move; it is unlocked when it is dropped.
        let locked = unsafe { sys::cuMemHostRegister_v2(sent.at(), PAGE, sys::CU_MEMHOSTREGISTER_DEVICEMAP) };
        locked.result().map_err(driver("locking the memory of a simulated link"))?;
        Ok(sent)
    }

    fn at(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }

    /// Its address on the device.
    fn on_device(&self) -> Result<sys::CUdeviceptr> {
        let mut address = 0;
        // SAFETY: `address` is valid for writes, and the page was locked.
        unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, self.at(), 0) }
            .result()
            .map_err(driver("the memory of a simulated link"))?;
        Ok(address)
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        // SAFETY: the page was locked by `new`. A failure leaves it locked, which harms nothing.
        let _ = unsafe { sys::cuMemHostUnregister(self.at()) }.result();
    }
}

impl DeviceLane {
    pub(super) fn new(compute: &Arc<CudaStream>, lane: Lane) -> Result<Self> {
        let priority = match lane {
            Lane::Ordinary => StreamPriority::Default,
            Lane::Urgent => StreamPriority::Highest,
        };
        let stream = new_stream(compute, priority)?;
        Ok(Self { compute: Arc::clone(compute), stream, sent: Sent::new()?, started: Mutex::default() })
    }

    /// Enqueues a collective of `size` ranks, and gives `send` what tells whether it is ready, and what to call when it was sent.
    pub(super) fn start(
        &self,
        collective: &Collective,
        buffer: Tensor,
        size: usize,
        send: impl FnOnce(Box<dyn FnMut() -> bool + Send>, Box<dyn FnOnce() + Send>),
    ) -> Result<Pending> {
        bind(&self.stream)?;
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let address = address(&buffer, &self.stream)?;
        let ready = self.compute.record_event(None).map_err(driver("an event"))?;
        self.stream.wait(&ready).map_err(driver("an event"))?;
        *started = started.wrapping_add(1);
        let number = *started;
        let stream = self.stream.cu_stream();
        let at_least = sys::CUstreamWaitValue_flags_enum::CU_STREAM_WAIT_VALUE_GEQ as u32;
        // SAFETY: the word is locked until the stream has completed this, since dropping this value waits for the stream.
        unsafe { sys::cuStreamWaitValue32_v2(stream, self.sent.on_device()?, number, at_least) }
            .result()
            .map_err(driver("waiting for a simulated link"))?;
        let sent = Arc::clone(&self.sent);
        let (context, done) = (Arc::clone(self.stream.context()), move || sent.0.store(number, Ordering::Release));
        // A failed device is ready: the error is reported where the host waits for it.
        let is_ready = move || context.bind_to_thread().is_err() || ready.try_is_complete().unwrap_or(true);
        send(Box::new(is_ready), Box::new(done));
        if matches!(collective, Collective::AllGather(_)) {
            let part = buffer.elem_count() / size * buffer.dtype().size_in_bytes();
            for rank in 1..size {
                // SAFETY: both parts are in the buffer, which `Collective::check` has divided, and do not overlap; it is kept and not
                // used until the stream has completed this.
                unsafe { result::memcpy_dtod_async(address + (rank * part) as u64, address, part, stream) }
                    .map_err(driver("a copy of a simulated collective"))?;
            }
        }
        let done = Arc::new(self.stream.record_event(None).map_err(driver("an event"))?);
        let enqueued = Enqueued { compute: Arc::clone(&self.compute), done, _buffer: buffer };
        Ok(Pending::new(move || enqueued.wait()))
    }
}

impl Drop for DeviceLane {
    fn drop(&mut self) {
        // What the stream waits for has to stay.
        let _ = self.stream.synchronize();
    }
}
