//! Results of correct programs.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use spag_stand_in::Error;
use spag_stand_in::calls::{cublas, event, memory, module, stream};

use crate::driver::{Handle, allocate, bind, copy_kernel, download, find_kernel, free, launch, new_stream, ok, upload};

#[test]
fn streams_that_wait_for_events_see_each_others_work() {
    bind();
    let (first, second) = (new_stream(), new_stream());
    let (from, to) = (allocate(64, first), allocate(64, first));
    let values: Vec<f32> = (0..64).map(|x| x as f32).collect();
    for _ in 0..20 {
        upload(&values, from, first);
        second.wait_for(first.record());
        ok(launch(copy_kernel(), (from, to, 64), 0, second));
        first.wait_for(second.record());
        assert_eq!(download(to, 64, first), values);
    }
    // Concurrent reads need no order.
    let event = second.record();
    first.wait_for(event);
    assert_eq!(download(from, 64, second), download(from, 64, first));
    ok(second.synchronize());
    // SAFETY: no pointers.
    ok(unsafe { event::cuEventQuery(event.0) });
    ok(free(from, first));
    ok(free(to, first));
}

/// As a link between simulated ranks ends the waiting of a stream.
#[test]
fn streams_wait_for_a_number_of_the_host() {
    bind();
    let (first, second) = (new_stream(), new_stream());
    let number = Arc::new(AtomicU32::new(u32::MAX));
    let at = number.as_ptr().cast();
    let mut address = 0;
    // SAFETY: the number lives until both streams have passed it.
    unsafe {
        assert_ne!(memory::cuMemHostGetDevicePointer_v2(&raw mut address, at, 0), 0, "it is not locked yet");
        ok(memory::cuMemHostRegister_v2(at, 4, 2));
        ok(memory::cuMemHostGetDevicePointer_v2(&raw mut address, at, 0));
        // Numbers are compared cyclically: 1 comes after u32::MAX.
        ok(stream::cuStreamWaitValue32_v2(first.0, address, 1, 0));
        ok(stream::cuStreamWaitValue32_v2(second.0, address, u32::MAX - 1, 0));
    }
    let passed = first.record();
    ok(second.synchronize());
    // SAFETY: no pointers.
    let query = || unsafe { event::cuEventQuery(passed.0) };
    assert_eq!(query(), Error::NotReady as i32);
    number.store(1, Ordering::Release);
    ok(first.synchronize());
    assert_eq!(query(), 0);
    // SAFETY: no stream waits for it any more.
    unsafe { ok(memory::cuMemHostUnregister(at)) };
}

#[test]
fn a_graph_does_its_work_again_with_the_numbers_of_now() {
    bind();
    let (stream, kernel) = (new_stream(), copy_kernel());
    let (from, to) = (allocate(4, stream), allocate(4, stream));
    stream.begin_capture();
    // Graph memory, which the graph frees.
    let between = allocate(4, stream);
    ok(launch(kernel, (from, between, 4), 0, stream));
    ok(launch(kernel, (between, to, 4), 0, stream));
    ok(free(between, stream));
    let (code, graph) = stream.end_capture();
    ok(code);
    for values in [[1., 2., 3., 4.], [5., 6., 7., 8.]] {
        upload(&values, from, stream);
        ok(graph.replay(stream));
        assert_eq!(download(to, 4, stream), values);
    }
}

#[test]
fn products_are_columns_by_columns() {
    bind();
    let stream = new_stream();
    let mut handle = ptr::null_mut();
    let (a, b, c) = (allocate(6, stream), allocate(6, stream), allocate(4, stream));
    // 2 × 3, and the transpose of 3 × 2.
    upload(&[1., 2., 3., 4., 5., 6.], a, stream);
    upload(&[1., 0., 0., 1., 1., 1.], b, stream);
    upload(&[100., 0., 0., 0.], c, stream);
    let (alpha, beta) = (2f32, 1f32);
    let scale = |x: &f32| ptr::from_ref(x).cast();
    let at = |address: u64| address as *mut std::ffi::c_void;
    // SAFETY: as for cuBLAS.
    unsafe {
        ok(cublas::cublasCreate_v2(&raw mut handle));
        ok(cublas::cublasSetStream_v2(handle, stream.0));
        ok(cublas::cublasGemmEx(
            handle,
            0,
            1,
            2,
            2,
            3,
            scale(&alpha),
            at(a),
            0,
            2,
            at(b),
            0,
            2,
            scale(&beta),
            at(c),
            0,
            2,
            68,
            0,
        ));
        let narrow = cublas::cublasGemmEx(
            handle,
            0,
            1,
            2,
            2,
            3,
            scale(&alpha),
            at(a),
            0,
            1,
            at(b),
            0,
            2,
            scale(&beta),
            at(c),
            0,
            2,
            68,
            0,
        );
        assert_eq!(narrow, 7, "columns of 2 numbers are not 1 apart");
        ok(cublas::cublasDestroy_v2(handle));
    }
    // a·bᵀ = [1 3 5; 2 4 6]·[1 0; 0 1; 1 1], by columns [6 8] and [8 10].
    assert_eq!(download(c, 4, stream), [112., 16., 16., 20.]);
}

#[test]
fn kernels_of_candle_compute_with_strides() {
    bind();
    let stream = new_stream();
    let launched = |name: &str, values: &mut [u64]| {
        let (code, Handle(kernel)) = find_kernel(name);
        ok(code);
        let mut pointers: Vec<*mut std::ffi::c_void> =
            values.iter_mut().map(|value| ptr::from_mut(value).cast()).collect();
        // SAFETY: a pointer for every parameter of the kernels below.
        ok(unsafe {
            module::cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream.0, pointers.as_mut_ptr(), ptr::null_mut())
        });
    };
    let (x, y, out) = (allocate(6, stream), allocate(6, stream), allocate(6, stream));
    upload(&[1., 2., 3., 4., 5., 6.], x, stream);
    upload(&[10., 20., 30., 0., 0., 0.], y, stream);
    // A 3 × 2 transpose of x, and y with its numbers along rows: dimensions, strides of x, strides of y.
    let layout: Vec<f32> = [3u64, 2, 1, 3, 1, 0].iter().flat_map(|n| [f32::from_bits(*n as u32), 0.]).collect();
    let info = allocate(12, stream);
    upload(&layout, info, stream);
    launched("badd_f32", &mut [6, 2, info, x, y, out]);
    assert_eq!(download(out, 6, stream), [11., 14., 22., 25., 33., 36.]);
    launched("usqr_f32", &mut [6, 0, 0, x, out]);
    assert_eq!(download(out, 6, stream), [1., 4., 9., 16., 25., 36.]);
    launched("fast_sum_f32", &mut [6, 2, 2, info, x, out]);
    assert_eq!(download(out, 3, stream), [5., 7., 9.]);
    launched("affine_f32", &mut [6, 0, 0, x, out, u64::from(2f32.to_bits()), u64::from(1f32.to_bits())]);
    assert_eq!(download(out, 6, stream), [3., 5., 7., 9., 11., 13.]);
    // Row 1 of 3 rows of 2 numbers; the layout is that of the single index.
    let (ids, layout) = (allocate(1, stream), allocate(4, stream));
    upload(&[f32::from_bits(1)], ids, stream);
    upload(&[f32::from_bits(1), 0., f32::from_bits(1), 0.], layout, stream);
    launched("is_u32_f32", &mut [2, 1, layout, ids, x, out, 1, 3, 1, 2]);
    assert_eq!(download(out, 2, stream), [3., 4.]);
}
