//! Errors returned by calls.

use std::ptr;
use std::thread;

use spag_stand_in::Error;
use spag_stand_in::calls::{event, memory};

use crate::child::in_a_process;
use crate::driver::{
    allocate, ask_for_shared, bind, copy_kernel, download, find_kernel, free, launch, new_stream, ok, try_allocate,
    upload,
};

#[test]
fn a_thread_without_a_context_gets_no_answers() {
    bind();
    let stream = new_stream();
    let event = stream.record();
    ok(stream.synchronize());
    let unbound = thread::spawn(move || {
        let (stream, event) = (stream, event);
        // SAFETY: no pointers.
        let query = unsafe { event::cuEventQuery(event.0) };
        let bound = {
            bind();
            // SAFETY: no pointers.
            unsafe { event::cuEventQuery(event.0) }
        };
        (query, bound, stream.synchronize())
    });
    assert_eq!(unbound.join().unwrap(), (Error::InvalidContext as i32, 0, 0));
}

#[test]
fn an_invalid_capture_fails_all_of_its_calls_and_ends() {
    bind();
    // Done before the capture, which forbids loading modules.
    let (stream, kernel) = (new_stream(), copy_kernel());
    let (from, to) = (allocate(4, stream), allocate(4, stream));
    upload(&[1., 2., 3., 4.], from, stream);
    ok(stream.synchronize());
    stream.begin_capture();
    ok(launch(kernel, (from, to, 4), 0, stream));
    assert_eq!(stream.synchronize(), Error::CaptureUnsupported as i32);
    assert_eq!(launch(kernel, (from, to, 4), 0, stream), Error::CaptureInvalidated as i32);
    assert_eq!(free(to, stream), Error::CaptureInvalidated as i32);
    let (code, graph) = stream.end_capture();
    assert_eq!((code, graph.0), (Error::CaptureInvalidated as i32, ptr::null_mut()));
    ok(launch(kernel, (from, to, 4), 0, stream));
    assert_eq!(download(to, 4, stream), [1., 2., 3., 4.]);
}

#[test]
fn calls_that_a_capture_forbids_make_it_invalid() {
    bind();
    let stream = new_stream();
    let before = new_stream().record();
    let memory_of_before = allocate(4, stream);
    let forbidden: [(&str, &dyn Fn() -> i32, Error); 3] = [
        (
            "allocating at once",
            &|| {
                let mut address = 0;
                // SAFETY: the result is written to a value of this function.
                unsafe { memory::cuMemAlloc_v2(&raw mut address, 16) }
            },
            Error::CaptureUnsupported,
        ),
        ("waiting for work outside", &|| stream.try_to_wait_for(before), Error::CaptureIsolation),
        ("freeing memory of others", &|| free(memory_of_before, stream), Error::InvalidValue),
    ];
    for (what, call, error) in forbidden {
        stream.begin_capture();
        assert_eq!(call(), error as i32, "{what}");
        assert_eq!(stream.end_capture().0, Error::CaptureInvalidated as i32, "{what}");
    }
    ok(stream.synchronize());
}

#[test]
fn memory_is_limited_and_comes_back() {
    in_a_process("errors::memory_is_limited_and_comes_back", &[("STAND_IN_MEMORY", "1000")], || {
        bind();
        let stream = new_stream();
        let (first, second) = (try_allocate(600, stream), try_allocate(600, stream));
        assert_eq!((first.0, second.0), (0, Error::OutOfMemory as i32));
        ok(free(first.1, stream));
        assert_eq!(try_allocate(600, stream).0, 0);
        assert_eq!(try_allocate(0, stream), (0, 0), "as on a device");
    });
}

#[test]
fn launches_keep_to_the_limits_of_the_device() {
    in_a_process("errors::launches_keep_to_the_limits_of_the_device", &[("STAND_IN_CAPABILITY", "86")], || {
        bind();
        let (stream, kernel) = (new_stream(), copy_kernel());
        let memory = (allocate(4, stream), allocate(4, stream), 4);
        let invalid = Error::InvalidValue as i32;
        assert_eq!(launch(kernel, memory, 50_000, stream), invalid, "more than 48 KiB without asking");
        assert_eq!(ask_for_shared(kernel, 132_096), invalid, "8.6 has 99 KiB");
        ok(ask_for_shared(kernel, 98_816));
        ok(launch(kernel, memory, 98_816, stream));
        assert_eq!(find_kernel("no_such_kernel").0, Error::NotFound as i32);
        ok(stream.synchronize());
    });
}

#[test]
fn after_a_failed_kernel_every_call_fails() {
    in_a_process("errors::after_a_failed_kernel_every_call_fails", &[], || {
        bind();
        let stream = new_stream();
        let memory = (allocate(64, stream), allocate(64, stream), 64);
        let (code, kernel) = find_kernel("faulty_barrier");
        ok(code);
        ok(launch(kernel, memory, 0, stream));
        let failed = Error::LaunchFailed as i32;
        assert_eq!(stream.synchronize(), failed);
        assert_eq!(try_allocate(4, stream).0, failed);
        assert_eq!(launch(kernel, memory, 0, stream), failed);
    });
}

#[test]
fn host_memory_is_registered_once() {
    bind();
    let mut values = vec![0f32; 64];
    let at = values.as_mut_ptr().cast();
    // SAFETY: the memory is alive.
    let (first, second) =
        unsafe { (memory::cuMemHostRegister_v2(at, 256, 0), memory::cuMemHostRegister_v2(at, 16, 0)) };
    assert_eq!((first, second), (0, Error::AlreadyRegistered as i32));
    // SAFETY: the memory is alive.
    let (first, second) = unsafe { (memory::cuMemHostUnregister(at), memory::cuMemHostUnregister(at)) };
    assert_eq!((first, second), (0, Error::NotRegistered as i32));
}
