//! cuBLAS.

use std::ffi::c_void;
use std::sync::Arc;

use crate::call::{exported, handle, number, put};
use crate::fault::fault;
use crate::machine::{Machine, machine};
use crate::order::Use;
use crate::product::{Format, Handle, Matrix, bytes, multiply};
use crate::queue::check_sticky;
use crate::result::Error;
use crate::work::{Access, Work};

pub(super) const SUCCESS: i32 = 0;
const NOT_INITIALIZED: i32 = 1;
pub(super) const INVALID_VALUE: i32 = 7;
const EXECUTION_FAILED: i32 = 13;
pub(super) const NOT_SUPPORTED: i32 = 15;

/// `CUBLAS_COMPUTE_32F` and `CUBLAS_COMPUTE_64F`.
const COMPUTE_32F: i32 = 68;
const COMPUTE_64F: i32 = 70;

/// A product as described by calls. Extents and strides count elements.
pub(super) struct Product {
    pub(super) transposed: [bool; 2],
    pub(super) extents: [usize; 3],
    pub(super) scales: (f64, f64),
    pub(super) addresses: [u64; 3],
    pub(super) formats: [Format; 3],
    pub(super) leading: [usize; 3],
    pub(super) strides: [usize; 3],
    pub(super) batches: usize,
}

/// Converts numbers that must not be negative.
fn sizes<const N: usize>(numbers: [i64; N]) -> Option<[usize; N]> {
    numbers.iter().all(|x| *x >= 0).then(|| numbers.map(|x| x as usize))
}

/// A scale factor in host memory, in the accumulation format.
pub(super) fn scale(at: *const c_void, compute: i32) -> Option<f64> {
    if at.is_null() {
        return None;
    }
    // SAFETY: scales are host numbers in the accumulation format, since the pointer mode is never changed.
    unsafe {
        match compute {
            COMPUTE_32F => Some(f64::from(at.cast::<f32>().read_unaligned())),
            COMPUTE_64F => Some(at.cast::<f64>().read_unaligned()),
            _ => None,
        }
    }
}

fn submit(machine: &mut Machine, cublas: Handle, product: &Product) -> Result<(), Error> {
    let [m, n, k] = product.extents;
    let what = format!("a product of {m}x{k} and {k}x{n}");
    if machine.stream(cublas.stream)?.capture.is_some() && !cublas.has_workspace {
        fault!(
            "{what} is captured without a workspace: cuBLAS would allocate one in the graph, and choose other algorithms"
        );
    }
    let stored =
        |transposed: bool, rows: usize, columns: usize| if transposed { [columns, rows] } else { [rows, columns] };
    let shapes = [stored(product.transposed[0], m, k), stored(product.transposed[1], k, n), [m, n]];
    let mut matrices = Vec::new();
    let mut accesses = Vec::new();
    for (i, shape) in shapes.into_iter().enumerate() {
        let (format, leading, stride) = (product.formats[i], product.leading[i], product.strides[i]);
        if leading < shape[0].max(1) {
            return Err(Error::InvalidValue);
        }
        let size = bytes(format, shape, leading, stride, product.batches);
        let region = machine.memory.region(product.addresses[i], Some(size), &what);
        if !(region.at() as usize).is_multiple_of(format.size()) {
            return Err(Error::InvalidValue);
        }
        let how = if i == 2 { Use::Write } else { Use::Read };
        accesses.push(Access { region: region.clone(), how });
        let transposed = i < 2 && product.transposed[i];
        matrices.push(Matrix { region, format, leading, transposed, stride });
    }
    let (extents, scales, batches) = (product.extents, product.scales, product.batches);
    let run = Arc::new(move || {
        let [a, b, c] = &matrices[..] else { return Err("three matrices are needed".to_owned()) };
        multiply((a, b, c), extents, scales, batches);
        Ok(())
    });
    machine.submit(cublas.stream, Work { what, accesses, run }).map(drop)
}

/// Looks up the handle and submits the product to its stream.
fn call(name: &str, cublas: *mut c_void, product: Option<Product>) -> i32 {
    let found = machine().products.get(&number(cublas)).copied();
    found.map_or(NOT_INITIALIZED, |found| call_on(name, found, product))
}

/// Submits a product to the stream of a handle.
pub(super) fn call_on(name: &str, cublas: Handle, product: Option<Product>) -> i32 {
    let mut machine = machine();
    if check_sticky().and_then(|()| machine.need_context()).is_err() {
        return EXECUTION_FAILED;
    }
    let Some(product) = product else { return INVALID_VALUE };
    match submit(&mut machine, cublas, &product) {
        Ok(()) => SUCCESS,
        Err(Error::InvalidValue) => INVALID_VALUE,
        Err(error) => {
            eprintln!("stand-in: {name}: {error:?}");
            EXECUTION_FAILED
        }
    }
}

/// Modifies a handle.
fn change(cublas: *mut c_void, change: impl FnOnce(&mut Handle)) -> i32 {
    match machine().products.get_mut(&number(cublas)) {
        Some(found) => {
            change(found);
            SUCCESS
        }
        None => NOT_INITIALIZED,
    }
}

exported! {
    fn cublasCreate_v2(cublas: *mut *mut c_void) -> i32 {
        let mut machine = machine();
        if machine.need_context().is_err() {
            return NOT_INITIALIZED;
        }
        let new = machine.handle();
        machine.products.insert(new, Handle::default());
        put(cublas, handle(new)).map_or(INVALID_VALUE, |()| SUCCESS)
    }

    fn cublasDestroy_v2(cublas: *mut c_void) -> i32 {
        machine().products.remove(&number(cublas)).map_or(NOT_INITIALIZED, |_| SUCCESS)
    }

    fn cublasSetStream_v2(cublas: *mut c_void, stream: *mut c_void) -> i32 {
        // As in cuBLAS, this resets the workspace.
        change(cublas, |found| *found = Handle { stream: number(stream), has_workspace: false })
    }

    fn cublasSetWorkspace_v2(cublas: *mut c_void, at: *mut c_void, bytes: usize) -> i32 {
        let region = machine().memory.region(number(at), Some(bytes), "the workspace of cuBLAS");
        if !(region.at() as usize).is_multiple_of(16) {
            return INVALID_VALUE;
        }
        change(cublas, |found| found.has_workspace = bytes > 0)
    }

    fn cublasSetMathMode(cublas: *mut c_void, _mode: i32) -> i32 {
        change(cublas, |_| {})
    }

    fn cublasGemmEx(
        cublas: *mut c_void,
        transpose_a: i32,
        transpose_b: i32,
        m: i32,
        n: i32,
        k: i32,
        alpha: *const c_void,
        a: *const c_void,
        type_a: i32,
        leading_a: i32,
        b: *const c_void,
        type_b: i32,
        leading_b: i32,
        beta: *const c_void,
        c: *mut c_void,
        type_c: i32,
        leading_c: i32,
        compute: i32,
        algorithm: i32,
    ) -> i32 {
        // SAFETY: the arguments of the caller, and one matrix of each.
        unsafe {
            cublasGemmStridedBatchedEx(
                cublas, transpose_a, transpose_b, m, n, k, alpha, a, type_a, leading_a, 0, b, type_b, leading_b, 0, beta, c,
                type_c, leading_c, 0, 1, compute, algorithm,
            )
        }
    }

    fn cublasGemmStridedBatchedEx(
        cublas: *mut c_void,
        transpose_a: i32,
        transpose_b: i32,
        m: i32,
        n: i32,
        k: i32,
        alpha: *const c_void,
        a: *const c_void,
        type_a: i32,
        leading_a: i32,
        stride_a: i64,
        b: *const c_void,
        type_b: i32,
        leading_b: i32,
        stride_b: i64,
        beta: *const c_void,
        c: *mut c_void,
        type_c: i32,
        leading_c: i32,
        stride_c: i64,
        batches: i32,
        compute: i32,
        _algorithm: i32,
    ) -> i32 {
        let (Some(type_a), Some(type_b), Some(type_c)) = (Format::find(type_a), Format::find(type_b), Format::find(type_c))
        else {
            return NOT_SUPPORTED;
        };
        let product = || {
            let [m, n, k, batches] = sizes([m, n, k, batches].map(i64::from))?;
            Some(Product {
                transposed: [transpose_a != 0, transpose_b != 0],
                extents: [m, n, k],
                scales: (scale(alpha, compute)?, scale(beta, compute)?),
                addresses: [number(a), number(b), number(c)],
                formats: [type_a, type_b, type_c],
                leading: sizes([leading_a, leading_b, leading_c].map(i64::from))?,
                strides: sizes([stride_a, stride_b, stride_c])?,
                batches,
            })
        };
        call("cublasGemmEx", cublas, product())
    }

    fn cublasDgemmStridedBatched(
        cublas: *mut c_void,
        transpose_a: i32,
        transpose_b: i32,
        m: i32,
        n: i32,
        k: i32,
        alpha: *const f64,
        a: *const f64,
        leading_a: i32,
        stride_a: i64,
        b: *const f64,
        leading_b: i32,
        stride_b: i64,
        beta: *const f64,
        c: *mut f64,
        leading_c: i32,
        stride_c: i64,
        batches: i32,
    ) -> i32 {
        // SAFETY: the arguments of the caller, in f64.
        unsafe {
            cublasGemmStridedBatchedEx(
                cublas, transpose_a, transpose_b, m, n, k, alpha.cast(), a.cast(), 1, leading_a, stride_a, b.cast(), 1,
                leading_b, stride_b, beta.cast(), c.cast(), 1, leading_c, stride_c, batches, COMPUTE_64F, 0,
            )
        }
    }
}
