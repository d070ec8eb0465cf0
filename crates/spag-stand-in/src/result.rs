//! Driver errors.

use std::ffi::CStr;

/// Errors returned by calls, with the driver's numbers (`CUresult` of `cuda.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Error {
    /// An argument is out of range.
    InvalidValue = 1,
    /// Out of device memory.
    OutOfMemory = 2,
    /// `cuInit` was not called.
    NotInitialized = 3,
    /// There is no device.
    NoDevice = 100,
    /// Device number out of range.
    InvalidDevice = 101,
    /// Not a module for this device.
    InvalidImage = 200,
    /// No context is bound to the calling thread.
    InvalidContext = 201,
    /// The handle does not exist.
    InvalidHandle = 400,
    /// No kernel of this name.
    NotFound = 500,
    /// Work is not complete yet; a query result, not a failure.
    NotReady = 600,
    /// Host memory is already page-locked.
    AlreadyRegistered = 712,
    /// Host memory is not page-locked.
    NotRegistered = 713,
    /// A kernel failed. Every later call of the process fails as well.
    LaunchFailed = 719,
    /// The call cannot be captured in a graph.
    CaptureUnsupported = 900,
    /// The capture was invalidated by an earlier call.
    CaptureInvalidated = 901,
    /// A capture would depend on work outside it.
    CaptureIsolation = 905,
    /// The event is part of a capture.
    CapturedEvent = 907,
    /// A capture is ended by another thread than began it.
    CaptureWrongThread = 908,
}

impl Error {
    /// The text of an error number.
    pub(crate) fn text(code: i32) -> &'static CStr {
        match code {
            0 => c"no error",
            1 => c"invalid argument",
            2 => c"out of memory",
            3 => c"initialization error",
            100 => c"no CUDA-capable device is detected",
            101 => c"invalid device ordinal",
            200 => c"device kernel image is invalid",
            201 => c"invalid device context",
            400 => c"invalid resource handle",
            500 => c"named symbol not found",
            600 => c"device not ready",
            712 => c"part or all of the requested memory range is already mapped",
            713 => c"pointer does not correspond to a registered memory region",
            719 => c"unspecified launch failure",
            900 => c"operation not permitted when stream is capturing",
            901 => c"operation failed due to a previous error during capture",
            905 => c"dependency created on uncaptured work in another stream",
            907 => c"operation not permitted on an event last recorded in a capturing stream",
            908 => c"attempt to terminate a thread-local capture sequence from another thread",
            _ => c"unrecognized error code",
        }
    }
}
