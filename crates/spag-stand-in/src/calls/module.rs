//! Modules and kernels.

use std::ffi::{CStr, c_char, c_void};

use crate::call::{calls, handle, number, put};
use crate::fault::fault;
use crate::kernel::{Function, Parameters, Shape};
use crate::machine::machine;
use crate::result::Error;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const SHARED_BYTES: i32 = 8;
/// Magic numbers of machine code: a fat binary, and a single architecture (ELF).
const IMAGES: [[u8; 4]; 2] = [[0x50, 0xed, 0x55, 0xba], *b"\x7fELF"];

/// Whether the driver would load an image. PTX is text.
fn is_module(image: *const c_void) -> bool {
    if image.is_null() {
        return false;
    }
    // SAFETY: images of every kind are longer than four bytes.
    let start = unsafe { image.cast::<[u8; 4]>().read_unaligned() };
    IMAGES.contains(&start) || start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

calls! {
    fn cuModuleLoad(_module: *mut *mut c_void, _path: *const c_char) {
        fault!("modules in files are not part of this stand-in")
    }

    fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) {
        let mut machine = machine();
        machine.need_context()?;
        machine.need_no_capture()?;
        if !is_module(image) {
            return Err(Error::InvalidImage);
        }
        let new = machine.handle();
        put(module, handle(new))
    }

    fn cuModuleUnload(_module: *mut c_void) {
        Ok(())
    }

    fn cuModuleGetFunction(function: *mut *mut c_void, _module: *mut c_void, name: *const c_char) {
        let mut machine = machine();
        machine.need_context()?;
        // SAFETY: the caller passes a zero-terminated string.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let Some(found) = Function::find(&name) else {
            eprintln!("stand-in: the kernel {name} is not part of it");
            return Err(Error::NotFound);
        };
        let new = machine.handle();
        machine.functions.insert(new, found);
        put(function, handle(new))
    }

    fn cuFuncSetAttribute(function: *mut c_void, attribute: i32, value: i32) {
        let mut machine = machine();
        machine.need_context()?;
        let settings = machine.settings;
        let function = machine.functions.get_mut(&number(function)).ok_or(Error::InvalidHandle)?;
        if attribute == SHARED_BYTES { function.ask_for(value, &settings) } else { Ok(()) }
    }

    fn cuLaunchKernel(
        function: *mut c_void,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: *mut c_void,
        parameters: *mut *mut c_void,
        _extra: *mut *mut c_void,
    ) {
        let mut machine = machine();
        machine.need_context()?;
        let function = machine.functions.get(&number(function)).ok_or(Error::InvalidHandle)?.clone();
        let shape = Shape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes: shared_bytes as usize,
        };
        let work = function.work(&machine, shape, Parameters(parameters.cast_const().cast()))?;
        machine.submit(number(stream), work).map(drop)
    }
}
