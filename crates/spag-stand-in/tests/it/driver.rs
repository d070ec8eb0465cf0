//! Wrappers of driver calls for the tests.

use std::ffi::{CString, c_void};
use std::ptr;

use spag_stand_in::calls::{context, copy, event, graph, memory, module, stream};

/// Fails a test unless a call succeeded.
#[track_caller]
pub(crate) fn ok(code: i32) {
    assert_eq!(code, 0, "a call of the driver");
}

/// Binds the context of device 0 to this thread.
pub(crate) fn bind() {
    let mut context = ptr::null_mut();
    // SAFETY: results are written to values of this function.
    unsafe {
        ok(context::cuInit(0));
        ok(context::cuDevicePrimaryCtxRetain(&raw mut context, 0));
        ok(context::cuCtxSetCurrent(context));
    }
}

/// A handle that tests may send to another thread.
#[derive(Clone, Copy)]
pub(crate) struct Handle(pub(crate) *mut c_void);

// SAFETY: handles of the stand-in are numbers.
unsafe impl Send for Handle {}

pub(crate) fn new_stream() -> Handle {
    let mut stream = ptr::null_mut();
    // SAFETY: as above.
    ok(unsafe { stream::cuStreamCreate(&raw mut stream, 1) });
    Handle(stream)
}

impl Handle {
    /// Waits for the work of this stream.
    pub(crate) fn synchronize(self) -> i32 {
        // SAFETY: no pointers.
        unsafe { stream::cuStreamSynchronize(self.0) }
    }

    /// Records a new event on this stream.
    pub(crate) fn record(self) -> Handle {
        let mut event = ptr::null_mut();
        // SAFETY: as above.
        unsafe {
            ok(event::cuEventCreate(&raw mut event, 0));
            ok(event::cuEventRecord(event, self.0));
        }
        Handle(event)
    }

    /// Lets this stream wait for an event.
    pub(crate) fn wait_for(self, event: Handle) {
        ok(self.try_to_wait_for(event));
    }

    /// The driver's code for waiting for an event.
    pub(crate) fn try_to_wait_for(self, event: Handle) -> i32 {
        // SAFETY: no pointers.
        unsafe { stream::cuStreamWaitEvent(self.0, event.0, 0) }
    }

    pub(crate) fn begin_capture(self) {
        // SAFETY: no pointers.
        ok(unsafe { stream::cuStreamBeginCapture_v2(self.0, 0) });
    }

    /// Ends a capture; returns the driver's code and the graph.
    pub(crate) fn end_capture(self) -> (i32, Handle) {
        let mut graph = ptr::null_mut();
        // SAFETY: as above.
        let code = unsafe { stream::cuStreamEndCapture(self.0, &raw mut graph) };
        (code, Handle(graph))
    }

    /// Launches this graph.
    pub(crate) fn replay(self, stream: Handle) -> i32 {
        let mut instance = ptr::null_mut();
        // SAFETY: as above.
        unsafe {
            ok(graph::cuGraphInstantiateWithFlags(&raw mut instance, self.0, 1));
            graph::cuGraphLaunch(instance, stream.0)
        }
    }
}

/// Allocates memory for numbers; returns the driver's code and the address.
pub(crate) fn try_allocate(bytes: usize, stream: Handle) -> (i32, u64) {
    let mut address = 0;
    // SAFETY: as above.
    let code = unsafe { memory::cuMemAllocAsync(&raw mut address, bytes, stream.0) };
    (code, address)
}

pub(crate) fn allocate(count: usize, stream: Handle) -> u64 {
    let (code, address) = try_allocate(4 * count, stream);
    ok(code);
    address
}

pub(crate) fn free(address: u64, stream: Handle) -> i32 {
    // SAFETY: no pointers.
    unsafe { memory::cuMemFreeAsync(address, stream.0) }
}

/// Copies numbers to the device.
pub(crate) fn upload(values: &[f32], address: u64, stream: Handle) {
    // SAFETY: the length of `values`.
    ok(unsafe { copy::cuMemcpyHtoDAsync_v2(address, values.as_ptr().cast(), size_of_val(values), stream.0) });
}

/// Copies numbers from the device.
pub(crate) fn download(address: u64, count: usize, stream: Handle) -> Vec<f32> {
    let mut values = vec![0f32; count];
    // SAFETY: the length of `values`.
    ok(unsafe { copy::cuMemcpyDtoHAsync_v2(values.as_mut_ptr().cast(), address, 4 * count, stream.0) });
    values
}

/// Looks up a kernel; returns the driver's code and the handle.
pub(crate) fn find_kernel(name: &str) -> (i32, Handle) {
    let (mut loaded, mut function) = (ptr::null_mut(), ptr::null_mut());
    let name = CString::new(name).unwrap();
    // SAFETY: as above; strings are zero-terminated.
    unsafe {
        ok(module::cuModuleLoadData(&raw mut loaded, c".version 9.0".as_ptr().cast()));
        let code = module::cuModuleGetFunction(&raw mut function, loaded, name.as_ptr());
        (code, Handle(function))
    }
}

/// Sets the maximum of shared memory of a kernel's blocks.
pub(crate) fn ask_for_shared(kernel: Handle, bytes: i32) -> i32 {
    // SAFETY: no pointers.
    unsafe { module::cuFuncSetAttribute(kernel.0, 8, bytes) }
}

/// Launches a kernel with (in, out, count) on 64 threads with this much shared memory.
pub(crate) fn launch(kernel: Handle, (from, to, count): (u64, u64, u32), shared: u32, stream: Handle) -> i32 {
    let (mut from, mut to, mut count) = (from, to, count);
    let mut values: [*mut c_void; 3] = [(&raw mut from).cast(), (&raw mut to).cast(), (&raw mut count).cast()];
    // SAFETY: a pointer for every parameter.
    unsafe {
        module::cuLaunchKernel(kernel.0, 1, 1, 1, 64, 1, 1, shared, stream.0, values.as_mut_ptr(), ptr::null_mut())
    }
}

/// The kernel that copies up to 64 numbers.
pub(crate) fn copy_kernel() -> Handle {
    let (code, kernel) = find_kernel("faulty_none");
    ok(code);
    kernel
}
