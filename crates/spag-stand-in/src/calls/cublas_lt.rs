//! cuBLASLt: products whose matrices are described by host objects.

use std::ffi::c_void;

use super::cublas::{INVALID_VALUE, NOT_SUPPORTED, Product, SUCCESS, call_on, scale};
use crate::call::{exported, handle, number, put};
use crate::machine::machine;
use crate::product::{Format, Handle};

/// `CUBLASLT_MATMUL_DESC_TRANSA` and `…_TRANSB`.
const TRANSPOSED: [i32; 2] = [3, 4];

/// A column-major matrix.
struct Layout {
    format: i32,
    rows: u64,
    columns: u64,
    leading: i64,
}

/// A product without its matrices.
struct Description {
    compute: i32,
    transposed: [bool; 2],
}

/// Returns an object to the caller.
fn create<T>(to: *mut *mut c_void, object: T) -> i32 {
    put(to, Box::into_raw(Box::new(object)).cast()).map_or(INVALID_VALUE, |()| SUCCESS)
}

/// # Safety
/// The address is that of a `T` returned by [`create`], and is destroyed only once.
unsafe fn destroy<T>(object: *mut c_void) -> i32 {
    // SAFETY: by the contract of this function.
    drop(unsafe { Box::from_raw(object.cast::<T>()) });
    SUCCESS
}

exported! {
    fn cublasLtCreate(lt: *mut *mut c_void) -> i32 {
        let new = machine().handle();
        put(lt, handle(new)).map_or(INVALID_VALUE, |()| SUCCESS)
    }

    fn cublasLtDestroy(_lt: *mut c_void) -> i32 {
        SUCCESS
    }

    fn cublasLtMatrixLayoutCreate(layout: *mut *mut c_void, format: i32, rows: u64, columns: u64, leading: i64) -> i32 {
        create(layout, Layout { format, rows, columns, leading })
    }

    fn cublasLtMatrixLayoutDestroy(layout: *mut c_void) -> i32 {
        // SAFETY: the caller destroys what was created.
        unsafe { destroy::<Layout>(layout) }
    }

    fn cublasLtMatmulDescCreate(description: *mut *mut c_void, compute: i32, _scale: i32) -> i32 {
        create(description, Description { compute, transposed: [false; 2] })
    }

    fn cublasLtMatmulDescSetAttribute(description: *mut c_void, attribute: i32, value: *const c_void, bytes: usize) -> i32 {
        let Some(side) = TRANSPOSED.iter().position(|known| *known == attribute) else { return NOT_SUPPORTED };
        if bytes != 4 {
            return INVALID_VALUE;
        }
        // SAFETY: the caller passes a description and a 32-bit number.
        unsafe { (*description.cast::<Description>()).transposed[side] = value.cast::<i32>().read_unaligned() != 0 };
        SUCCESS
    }

    fn cublasLtMatmulDescDestroy(description: *mut c_void) -> i32 {
        // SAFETY: as above.
        unsafe { destroy::<Description>(description) }
    }

    fn cublasLtMatmulPreferenceCreate(preference: *mut *mut c_void) -> i32 {
        create(preference, ())
    }

    fn cublasLtMatmulPreferenceSetAttribute(_preference: *mut c_void, _attribute: i32, _value: *const c_void, _bytes: usize) -> i32 {
        SUCCESS
    }

    fn cublasLtMatmulPreferenceDestroy(preference: *mut c_void) -> i32 {
        // SAFETY: as above.
        unsafe { destroy::<()>(preference) }
    }

    fn cublasLtMatmulAlgoGetHeuristic(
        _lt: *mut c_void,
        _description: *mut c_void,
        _a: *mut c_void,
        _b: *mut c_void,
        _c: *mut c_void,
        _d: *mut c_void,
        _preference: *mut c_void,
        wanted: i32,
        results: *mut [u64; 12],
        found: *mut i32,
    ) -> i32 {
        if wanted < 1 {
            return INVALID_VALUE;
        }
        // The algorithm (64 bytes), its workspace size, its state (0 for success), its waves, and reserved words.
        // SAFETY: the caller passes memory for at least one 96-byte result, and for the number of results.
        unsafe {
            results.write_unaligned([0; 12]);
            found.write_unaligned(1);
        }
        SUCCESS
    }

    fn cublasLtMatmul(
        _lt: *mut c_void,
        description: *mut c_void,
        alpha: *const c_void,
        a: *const c_void,
        layout_a: *mut c_void,
        b: *const c_void,
        layout_b: *mut c_void,
        beta: *const c_void,
        c: *const c_void,
        _layout_c: *mut c_void,
        d: *mut c_void,
        layout_d: *mut c_void,
        _algorithm: *const c_void,
        workspace: *mut c_void,
        workspace_bytes: usize,
        stream: *mut c_void,
    ) -> i32 {
        if c != d.cast_const() {
            return NOT_SUPPORTED;
        }
        machine().memory.region(number(workspace), Some(workspace_bytes), "the workspace of cuBLAS");
        // SAFETY: the caller passes objects that were created.
        let (description, layouts) = unsafe {
            (&*description.cast::<Description>(), [layout_a, layout_b, layout_d].map(|layout| &*layout.cast::<Layout>()))
        };
        let (Some(format_a), Some(format_b), Some(format_d)) =
            (Format::find(layouts[0].format), Format::find(layouts[1].format), Format::find(layouts[2].format))
        else {
            return NOT_SUPPORTED;
        };
        let stored = layouts.map(|layout| [layout.rows as usize, layout.columns as usize]);
        let [[m, k], [of_b, n]] = [0, 1].map(|side| {
            let [rows, columns] = stored[side];
            if description.transposed[side] { [columns, rows] } else { [rows, columns] }
        });
        if k != of_b || stored[2] != [m, n] {
            return INVALID_VALUE;
        }
        let product = || {
            Some(Product {
                transposed: description.transposed,
                extents: [m, n, k],
                scales: (scale(alpha, description.compute)?, scale(beta, description.compute)?),
                addresses: [number(a), number(b), number(d)],
                formats: [format_a, format_b, format_d],
                leading: layouts.map(|layout| layout.leading.max(0) as usize),
                strides: [0; 3],
                batches: 1,
            })
        };
        call_on("cublasLtMatmul", Handle { stream: number(stream), has_workspace: true }, product())
    }
}
