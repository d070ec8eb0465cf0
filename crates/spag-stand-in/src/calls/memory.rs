//! Device memory, and page-locked host memory.

use std::ffi::c_void;
use std::sync::Arc;

use crate::call::{calls, number, put};
use crate::fault::fault;
use crate::machine::machine;
use crate::memory::device_address;
use crate::order::Use;
use crate::result::Error;
use crate::work::{Access, Work};

calls! {
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        let mut machine = machine();
        machine.need_context()?;
        machine.need_no_capture()?;
        put(address, machine.memory.allocate(bytes, false)?)
    }

    fn cuMemFree_v2(address: u64) {
        // Waits for all work of the device.
        let all = {
            let mut machine = machine();
            machine.need_context()?;
            machine.need_no_capture()?;
            machine.memory.whole(address)?;
            machine.streams.keys().copied().collect::<Vec<_>>()
        };
        all.into_iter().try_for_each(super::stream::synchronize)?;
        machine().memory.free(address);
        Ok(())
    }

    fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: *mut c_void) {
        let mut machine = machine();
        machine.need_context()?;
        let machine = &mut *machine;
        let state = machine.streams.get_mut(&number(stream)).ok_or(Error::InvalidHandle)?;
        if bytes == 0 {
            // Like an H100's driver, unlike `cuMemAlloc`.
            return put(address, 0);
        }
        if let Some(capture) = &mut state.capture {
            return put(address, capture.allocate(&mut machine.memory, bytes)?);
        }
        let new = machine.memory.allocate(bytes, false)?;
        let access = Access { region: machine.memory.whole(new)?, how: Use::Write };
        // Work on other streams must be ordered after the allocation.
        let run = Arc::new(|| Ok(()));
        machine.submit(number(stream), Work { what: "an allocation".into(), accesses: vec![access], run })?;
        put(address, new)
    }

    fn cuMemFreeAsync(address: u64, stream: *mut c_void) {
        let mut machine = machine();
        machine.need_context()?;
        let machine = &mut *machine;
        let state = machine.streams.get_mut(&number(stream)).ok_or(Error::InvalidHandle)?;
        if address == 0 {
            return Ok(());
        }
        if let Some(capture) = &mut state.capture {
            return capture.free(address);
        }
        let access = Access { region: machine.memory.whole(address)?, how: Use::Write };
        let run = Arc::new(|| Ok(()));
        machine.submit(number(stream), Work { what: "freeing memory".into(), accesses: vec![access], run })?;
        machine.memory.free(address);
        Ok(())
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let machine = machine();
        machine.need_context()?;
        let limit = machine.memory.limit();
        put(free, limit - machine.memory.used().0)?;
        put(total, limit)
    }

    fn cuMemPoolGetAttribute(_pool: *mut c_void, attribute: i32, value: *mut c_void) {
        let (used, peak) = machine().memory.used();
        // Numbers of `CUmemPool_attribute`: the pool retains no freed memory.
        put(value.cast::<u64>(), match attribute {
            5 | 7 => used as u64,
            6 | 8 => peak as u64,
            _ => fault!("attribute {attribute} of a memory pool is not part of this stand-in"),
        })
    }

    fn cuMemPoolSetAttribute(_pool: *mut c_void, _attribute: i32, _value: *mut c_void) {
        Ok(())
    }

    fn cuMemHostRegister_v2(at: *mut c_void, bytes: usize, _flags: u32) {
        let mut machine = machine();
        machine.need_context()?;
        if at.is_null() || bytes == 0 {
            return Err(Error::InvalidValue);
        }
        let (start, end) = (at as usize, at as usize + bytes);
        if machine.registered.iter().any(|(other, length)| *other < end && start < other + length) {
            return Err(Error::AlreadyRegistered);
        }
        machine.registered.insert(start, bytes);
        Ok(())
    }

    fn cuMemHostGetDevicePointer_v2(address: *mut u64, at: *mut c_void, _flags: u32) {
        let machine = machine();
        machine.need_context()?;
        if !machine.is_registered(&(at as usize..at as usize + 1)) {
            return Err(Error::InvalidValue);
        }
        put(address, device_address(at as usize))
    }

    fn cuMemHostUnregister(at: *mut c_void) {
        let mut machine = machine();
        machine.need_context()?;
        let start = at as usize;
        let bytes = machine.registered.remove(&start).ok_or(Error::NotRegistered)?;
        if let Some(copy) = machine.host_uses.iter().find(|each| each.bytes.start < start + bytes && start < each.bytes.end) {
            fault!("page-locked memory is released before {} on stream {} was waited for", copy.what, copy.stream);
        }
        Ok(())
    }
}
