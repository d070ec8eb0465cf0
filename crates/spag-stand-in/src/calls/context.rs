//! Devices and contexts.

use std::ffi::{c_char, c_void};

use crate::call::{calls, handle, number, put};
use crate::machine::{current, machine, set_current};
use crate::result::Error;

/// The driver version: 13.0.
const VERSION: i32 = 13_000;
const NAME: &[u8] = b"stand-in\0";

/// The primary context of a device.
fn primary(device: i32) -> u64 {
    0x100 + device as u64
}

fn check_device(device: i32) -> Result<(), Error> {
    let machine = machine();
    if !machine.initialized {
        return Err(Error::NotInitialized);
    }
    if (0..machine.settings.devices).contains(&device) { Ok(()) } else { Err(Error::InvalidDevice) }
}

calls! {
    fn cuInit(_flags: u32) {
        let mut machine = machine();
        if machine.settings.devices == 0 {
            return Err(Error::NoDevice);
        }
        machine.initialized = true;
        Ok(())
    }

    fn cuDriverGetVersion(version: *mut i32) {
        put(version, VERSION)
    }

    fn cuGetErrorString(error: i32, text: *mut *const c_char) {
        put(text, Error::text(error).as_ptr())
    }

    fn cuDeviceGetCount(count: *mut i32) {
        put(count, machine().settings.devices)
    }

    fn cuDeviceGet(device: *mut i32, ordinal: i32) {
        check_device(ordinal)?;
        put(device, ordinal)
    }

    fn cuDeviceGetName(name: *mut c_char, length: i32, device: i32) {
        check_device(device)?;
        if (length as usize) < NAME.len() {
            return Err(Error::InvalidValue);
        }
        // SAFETY: the caller's buffer has `length` bytes.
        unsafe { name.cast::<u8>().copy_from_nonoverlapping(NAME.as_ptr(), NAME.len()) };
        Ok(())
    }

    fn cuDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32) {
        check_device(device)?;
        let settings = machine().settings;
        // Numbers of `CUdevice_attribute`.
        put(value, match attribute {
            // Maximum block size; warp size; registers per block.
            1 => 1024,
            10 => 32,
            12 => 65_536,
            8 => 48 << 10,
            // Multiprocessors of an H100.
            16 => 132,
            75 => settings.capability / 10,
            76 => settings.capability % 10,
            97 => settings.shared_bytes() as i32,
            // Memory pools.
            115 => 1,
            _ => crate::fault::fault!("attribute {attribute} of a device is not part of this stand-in"),
        })
    }

    fn cuDeviceGetDefaultMemPool(pool: *mut *mut c_void, device: i32) {
        check_device(device)?;
        put(pool, handle(primary(device)))
    }

    fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: i32) {
        check_device(device)?;
        *machine().contexts.entry(primary(device)).or_default() += 1;
        put(context, handle(primary(device)))
    }

    fn cuDevicePrimaryCtxRelease_v2(device: i32) {
        let mut machine = machine();
        match machine.contexts.get_mut(&primary(device)) {
            Some(retained) if *retained > 0 => *retained -= 1,
            _ => return Err(Error::InvalidContext),
        }
        Ok(())
    }

    fn cuCtxGetCurrent(context: *mut *mut c_void) {
        put(context, handle(current()))
    }

    fn cuCtxSetCurrent(context: *mut c_void) {
        let context = number(context);
        if context != 0 && !machine().contexts.contains_key(&context) {
            return Err(Error::InvalidContext);
        }
        set_current(context);
        Ok(())
    }

    fn cuCtxDestroy_v2(_context: *mut c_void) {
        // Only primary contexts exist, which are released instead.
        Err(Error::InvalidContext)
    }

    fn cuCtxSynchronize() {
        let all = {
            let mut machine = machine();
            machine.need_context()?;
            machine.need_no_capture()?;
            machine.streams.keys().copied().collect::<Vec<_>>()
        };
        all.into_iter().try_for_each(super::stream::synchronize)
    }
}
