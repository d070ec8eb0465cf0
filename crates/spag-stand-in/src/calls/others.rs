//! Stubs of libraries that programs are linked with but hardly use: a cuRAND generator is created but never used, and the CUDA
//! runtime's kernels are never launched.

use std::ffi::c_void;

use crate::call::{exported, handle, put};
use crate::fault::fault;

/// A dummy handle.
const GENERATOR: u64 = 0x10;
const FAT_BINARY: u64 = 0x20;

exported! {
    fn curandCreateGenerator(generator: *mut *mut c_void, _kind: i32) -> i32 {
        put(generator, handle(GENERATOR)).map_or(1, |()| 0)
    }

    fn curandDestroyGenerator(_generator: *mut c_void) -> i32 {
        0
    }

    fn curandSetPseudoRandomGeneratorSeed(_generator: *mut c_void, _seed: u64) -> i32 {
        0
    }

    fn curandSetStream(_generator: *mut c_void, _stream: *mut c_void) -> i32 {
        0
    }

    // Registration of the runtime's kernels at program start.

    fn __cudaRegisterFatBinary(_image: *const c_void) -> *mut c_void {
        handle(FAT_BINARY)
    }

    fn __cudaRegisterFatBinaryEnd(_image: *mut c_void) {}

    fn __cudaUnregisterFatBinary(_image: *mut c_void) {}

    fn __cudaRegisterFunction(
        _image: *mut c_void,
        _host: *const c_void,
        _name: *mut c_void,
        _device_name: *const c_void,
        _threads: i32,
        _thread: *mut c_void,
        _block: *mut c_void,
        _block_size: *mut c_void,
        _grid_size: *mut c_void,
        _warp: *mut i32,
    ) {}

    fn __cudaRegisterVar(
        _image: *mut c_void,
        _host: *mut c_void,
        _address: *mut c_void,
        _name: *const c_void,
        _external: i32,
        _bytes: usize,
        _constant: i32,
        _global: i32,
    ) {}

    fn __cudaPushCallConfiguration() -> i32 {
        fault!("kernels of the CUDA runtime are not part of this stand-in")
    }

    fn __cudaPopCallConfiguration() -> i32 {
        fault!("kernels of the CUDA runtime are not part of this stand-in")
    }

    fn __cudaGetKernel() -> i32 {
        fault!("kernels of the CUDA runtime are not part of this stand-in")
    }

    fn __cudaLaunchKernel_ptsz() -> i32 {
        fault!("kernels of the CUDA runtime are not part of this stand-in")
    }

    fn cudaFuncSetAttribute(_function: *const c_void, _attribute: i32, _value: i32) -> i32 {
        fault!("kernels of the CUDA runtime are not part of this stand-in")
    }

    fn cudaGetDevice(_device: *mut i32) -> i32 {
        fault!("the CUDA runtime is not part of this stand-in")
    }
}
