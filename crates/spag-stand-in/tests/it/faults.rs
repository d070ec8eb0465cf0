//! Faults that end a program because a device would not report them, or only sometimes.

use std::thread;

use spag_stand_in::calls::{copy, cublas, memory};

use crate::child;
use crate::driver::{Handle, allocate, bind, copy_kernel, download, find_kernel, free, launch, new_stream, ok, upload};

/// Runs `program` with a context in a child process, and expects it to end with this message.
fn must_end(test: &str, message: &str, program: impl FnOnce()) {
    child::must_end(&format!("faults::{test}"), message, || {
        bind();
        program();
    });
}

#[test]
fn a_read_before_the_event_of_the_write() {
    must_end("a_read_before_the_event_of_the_write", "is not ordered after a copy to the device on stream 0", || {
        let (first, second) = (new_stream(), new_stream());
        let address = allocate(4, first);
        // Does not wait for the copy after it.
        second.wait_for(first.record());
        upload(&[0.; 4], address, first);
        download(address, 4, second);
    });
}

#[test]
fn a_write_while_another_stream_reads() {
    must_end("a_write_while_another_stream_reads", "is not ordered after faulty_none on stream 1", || {
        let (first, second) = (new_stream(), new_stream());
        let (from, to) = (allocate(4, first), allocate(4, first));
        upload(&[0.; 4], from, first);
        second.wait_for(first.record());
        ok(launch(copy_kernel(), (from, to, 4), 0, second));
        upload(&[1.; 4], from, first);
    });
}

#[test]
fn memory_freed_while_another_stream_uses_it() {
    must_end("memory_freed_while_another_stream_uses_it", "freeing memory on stream 0 (Write", || {
        let (first, second) = (new_stream(), new_stream());
        let (from, to) = (allocate(4, first), allocate(4, first));
        second.wait_for(first.record());
        ok(launch(copy_kernel(), (from, to, 4), 0, second));
        free(to, first);
    });
}

#[test]
fn memory_used_after_it_was_freed() {
    must_end("memory_used_after_it_was_freed", "which is not memory of the device, or is freed", || {
        let stream = new_stream();
        let address = allocate(4, stream);
        free(address, stream);
        upload(&[0.; 4], address, stream);
    });
}

#[test]
fn a_copy_beyond_the_end() {
    must_end("a_copy_beyond_the_end", "a copy to the device uses", || {
        let stream = new_stream();
        upload(&[0.; 4], allocate(3, stream), stream);
    });
}

#[test]
fn a_kernel_that_reads_beyond_the_end() {
    must_end("a_kernel_that_reads_beyond_the_end", "reads or writes outside its memory", || {
        let stream = new_stream();
        // A whole number of pages, so that the guard page follows immediately.
        let (from, to) = (allocate(1024, stream), allocate(64, stream));
        ok(launch(find_kernel("faulty_read").1, (from + 4032, to, 16), 0, stream));
        stream.synchronize();
    });
}

#[test]
fn page_locked_memory_that_changes_before_its_copy() {
    must_end("page_locked_memory_that_changes_before_its_copy", "changed before its copy to the device", || {
        let (stream, mut values) = (new_stream(), vec![0f32; 4]);
        let address = allocate(4, stream);
        // SAFETY: the memory is alive, and its length.
        ok(unsafe { memory::cuMemHostRegister_v2(values.as_mut_ptr().cast(), 16, 0) });
        upload(&values, address, stream);
        values[3] = 1.;
        stream.synchronize();
    });
}

#[test]
fn page_locked_memory_that_is_released_before_its_copy() {
    must_end("page_locked_memory_that_is_released_before_its_copy", "is released before a copy to the host", || {
        let (stream, mut values) = (new_stream(), vec![0f32; 4]);
        let address = allocate(4, stream);
        let at = values.as_mut_ptr().cast();
        // SAFETY: the memory is alive, and its length.
        unsafe {
            ok(memory::cuMemHostRegister_v2(at, 16, 0));
            ok(copy::cuMemcpyDtoHAsync_v2(at, address, 16, stream.0));
            memory::cuMemHostUnregister(at);
        }
    });
}

#[test]
fn a_captured_product_without_a_workspace() {
    must_end("a_captured_product_without_a_workspace", "is captured without a workspace", || {
        let stream = new_stream();
        let (a, b, c) = (allocate(4, stream), allocate(4, stream), allocate(4, stream));
        let (mut handle, one) = (std::ptr::null_mut(), 1f32);
        let (scale, at) = (std::ptr::from_ref(&one).cast(), |address: u64| address as *mut std::ffi::c_void);
        // SAFETY: as for cuBLAS.
        unsafe {
            ok(cublas::cublasCreate_v2(&raw mut handle));
            ok(cublas::cublasSetStream_v2(handle, stream.0));
            stream.begin_capture();
            cublas::cublasGemmEx(handle, 0, 0, 2, 2, 2, scale, at(a), 0, 2, at(b), 0, 2, scale, at(c), 0, 2, 68, 0);
        }
    });
}

#[test]
fn work_of_another_thread_in_a_graph() {
    must_end("work_of_another_thread_in_a_graph", "into the graph that another thread captures", || {
        let (stream, kernel) = (new_stream(), copy_kernel());
        let memory = (allocate(4, stream), allocate(4, stream), 4);
        stream.begin_capture();
        let other = move |stream: Handle, kernel: Handle| {
            bind();
            launch(kernel, memory, 0, stream)
        };
        thread::spawn(move || other(stream, kernel)).join().unwrap();
    });
}

#[test]
fn a_graph_that_outlives_its_memory() {
    must_end("a_graph_that_outlives_its_memory", "uses memory that was freed after it was captured", || {
        let (stream, kernel) = (new_stream(), copy_kernel());
        let (from, to) = (allocate(4, stream), allocate(4, stream));
        stream.begin_capture();
        ok(launch(kernel, (from, to, 4), 0, stream));
        let (code, graph) = stream.end_capture();
        ok(code);
        ok(graph.replay(stream));
        ok(free(from, stream));
        graph.replay(stream);
    });
}
