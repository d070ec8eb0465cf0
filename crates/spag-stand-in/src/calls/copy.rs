//! Memory copies.
//!
//! Copies from and to pageable host memory complete before the call returns. Copies with page-locked memory run on the stream:
//! until the host has waited for one, the source must not change and the target is undefined.

use std::ffi::c_void;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use crate::call::{calls, number};
use crate::fault::fault;
use crate::machine::{HostUse, Machine, digest, machine};
use crate::order::Use;
use crate::result::Error;
use crate::work::{Access, Run, Work};

fn range(at: usize, bytes: usize) -> Range<usize> {
    at..at + bytes
}

/// Submits a copy with page-locked memory to a stream.
fn submit_late(
    machine: &mut Machine,
    stream: *mut c_void,
    (bytes, digest): (Range<usize>, Option<u64>),
    what: &'static str,
    access: Access,
    run: Run,
) -> Result<(), Error> {
    let number_of_work = machine.submit(number(stream), Work { what: what.into(), accesses: vec![access], run })?;
    let stream = machine.stream(number(stream))?.number;
    machine.host_uses.push(HostUse { bytes, digest, stream, number: number_of_work, what });
    Ok(())
}

calls! {
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: *mut c_void) {
        let mut machine = machine();
        machine.need_context()?;
        if bytes == 0 {
            return Ok(());
        }
        let what = "a copy to the device";
        let region = machine.memory.region(to, Some(bytes), what);
        let (at, target) = (from as usize, region.at() as usize);
        let access = Access { region, how: Use::Write };
        if machine.is_registered(&range(at, bytes)) {
            let run = Arc::new(move || {
                // SAFETY: the host memory lives until the copy is done, and the work keeps the region.
                unsafe { (target as *mut u8).copy_from_nonoverlapping(at as *const u8, bytes) };
                Ok(())
            });
            let copy = (range(at, bytes), Some(digest(&range(at, bytes))));
            return submit_late(&mut machine, stream, copy, what, access, run);
        }
        // SAFETY: the caller's memory has that many bytes.
        let staged = unsafe { slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec();
        let run = Arc::new(move || {
            // SAFETY: the work keeps the region.
            unsafe { (target as *mut u8).copy_from_nonoverlapping(staged.as_ptr(), bytes) };
            Ok(())
        });
        machine.submit(number(stream), Work { what: what.into(), accesses: vec![access], run }).map(drop)
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: *mut c_void) {
        let late = {
            let mut machine = machine();
            machine.need_context()?;
            if bytes == 0 {
                return Ok(());
            }
            let what = "a copy to the host";
            let region = machine.memory.region(from, Some(bytes), what);
            let (at, source) = (to as usize, region.at() as usize);
            let access = Access { region, how: Use::Read };
            let late = machine.is_registered(&range(at, bytes));
            if machine.stream(number(stream))?.capture.is_some() {
                fault!("{what} in a capture is not part of this stand-in");
            }
            let run: Run = Arc::new(move || {
                // SAFETY: as above.
                unsafe { (at as *mut u8).copy_from_nonoverlapping(source as *const u8, bytes) };
                Ok(())
            });
            if late {
                // SAFETY: the caller's memory has that many bytes.
                unsafe { to.cast::<u8>().write_bytes(0xff, bytes) };
                submit_late(&mut machine, stream, (range(at, bytes), None), what, access, run)?;
            } else {
                machine.submit(number(stream), Work { what: what.into(), accesses: vec![access], run })?;
            }
            late
        };
        if late { Ok(()) } else { super::stream::synchronize(number(stream)) }
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: *mut c_void) {
        let mut machine = machine();
        machine.need_context()?;
        if bytes == 0 {
            return Ok(());
        }
        let what = "a copy on the device";
        let (from, to) = (machine.memory.region(from, Some(bytes), what), machine.memory.region(to, Some(bytes), what));
        let (source, target) = (from.at() as usize, to.at() as usize);
        let accesses = vec![Access { region: from, how: Use::Read }, Access { region: to, how: Use::Write }];
        let run = Arc::new(move || {
            // SAFETY: the work keeps both regions.
            unsafe { (target as *mut u8).copy_from(source as *const u8, bytes) };
            Ok(())
        });
        machine.submit(number(stream), Work { what: what.into(), accesses, run }).map(drop)
    }

    fn cuMemcpyPeerAsync(_to: u64, _to_context: *mut c_void, _from: u64, _from_context: *mut c_void, _bytes: usize, _stream: *mut c_void) {
        fault!("copies between devices are not part of this stand-in")
    }

    fn cuMemsetD8Async(at: u64, value: u8, bytes: usize, stream: *mut c_void) {
        let mut machine = machine();
        machine.need_context()?;
        if bytes == 0 {
            return Ok(());
        }
        let what = "setting memory";
        let region = machine.memory.region(at, Some(bytes), what);
        let target = region.at() as usize;
        let run = Arc::new(move || {
            // SAFETY: the work keeps the region.
            unsafe { (target as *mut u8).write_bytes(value, bytes) };
            Ok(())
        });
        let accesses = vec![Access { region, how: Use::Write }];
        machine.submit(number(stream), Work { what: what.into(), accesses, run }).map(drop)
    }
}
