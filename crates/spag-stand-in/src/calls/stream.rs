//! Streams and stream capture.

use std::ffi::c_void;
use std::sync::Arc;
use std::thread;

use crate::call::{calls, handle, number, put};
use crate::capture::Capture;
use crate::fault::fault;
use crate::machine::machine;
use crate::memory::host_address;
use crate::queue::Task;
use crate::result::Error;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: u32 = 1;

/// `CU_STREAM_WAIT_VALUE_GEQ`.
const AT_LEAST: u32 = 0;

/// Waits for the work of a stream.
pub(crate) fn synchronize(stream: u64) -> Result<(), Error> {
    let (queue, clock) = {
        let mut machine = machine();
        let state = machine.stream(stream)?;
        if let Some(capture) = &mut state.capture {
            capture.invalid = true;
            return Err(Error::CaptureUnsupported);
        }
        (state.queue.clone(), state.clock.clone())
    };
    queue.synchronize()?;
    machine().host_waited(&clock);
    Ok(())
}

/// A new stream.
fn create(stream: *mut *mut c_void, flags: u32) -> Result<(), Error> {
    let mut machine = machine();
    machine.need_context()?;
    if flags != NON_BLOCKING {
        fault!("a stream that waits for the default stream is not part of this stand-in");
    }
    put(stream, handle(machine.create_stream()))
}

calls! {
    fn cuStreamCreate(stream: *mut *mut c_void, flags: u32) {
        create(stream, flags)
    }

    // Priorities are hints to a GPU's scheduler; streams run in any order here.
    fn cuStreamCreateWithPriority(stream: *mut *mut c_void, flags: u32, _priority: i32) {
        create(stream, flags)
    }

    fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) {
        machine().need_context()?;
        put(least, 0)?;
        put(greatest, -5)
    }

    fn cuStreamDestroy_v2(stream: *mut c_void) {
        let removed = {
            let mut machine = machine();
            machine.need_context()?;
            machine.streams.remove(&number(stream)).ok_or(Error::InvalidHandle)?
        };
        removed.queue.end();
        Ok(())
    }

    fn cuStreamSynchronize(stream: *mut c_void) {
        machine().need_context()?;
        synchronize(number(stream))
    }

    fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: u32) {
        let mut machine = machine();
        machine.need_context()?;
        let event = machine.events.get(&number(event)).ok_or(Error::InvalidHandle)?;
        if event.captured {
            fault!("waiting for an event of a capture is not part of this stand-in");
        }
        let (signal, recorded, clock) = (Arc::clone(&event.signal), event.recorded, event.clock.clone());
        let state = machine.stream(number(stream))?;
        if let Some(capture) = &mut state.capture {
            capture.invalid = true;
            return Err(Error::CaptureIsolation);
        }
        if recorded > 0 {
            state.clock.join(&clock);
            state.queue.push(Task::Wait(signal, recorded));
        }
        Ok(())
    }

    // The host may change the number while streams run, so that no order is checked.
    fn cuStreamWaitValue32_v2(stream: *mut c_void, address: u64, value: u32, flags: u32) {
        let mut machine = machine();
        machine.need_context()?;
        if flags != AT_LEAST {
            fault!("waiting for another relation than at least is not part of this stand-in");
        }
        let at = host_address(address);
        if !machine.is_registered(&(at..at + size_of::<u32>())) || !at.is_multiple_of(size_of::<u32>()) {
            return Err(Error::InvalidValue);
        }
        let state = machine.stream(number(stream))?;
        if state.capture.is_some() {
            fault!("waiting for a number in a capture is not part of this stand-in");
        }
        state.queue.push(Task::WaitValue(at, value));
        Ok(())
    }

    fn cuStreamBeginCapture_v2(stream: *mut c_void, _mode: i32) {
        let mut machine = machine();
        machine.need_context()?;
        let state = machine.stream(number(stream))?;
        if state.capture.is_some() {
            return Err(Error::CaptureUnsupported);
        }
        state.capture = Some(Capture::begin());
        Ok(())
    }

    fn cuStreamIsCapturing(stream: *mut c_void, status: *mut i32) {
        let mut machine = machine();
        machine.need_context()?;
        put(status, match &machine.stream(number(stream))?.capture {
            None => 0,
            Some(capture) if capture.invalid => 2,
            Some(_) => 1,
        })
    }

    fn cuStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) {
        let ended = {
            let mut machine = machine();
            machine.need_context()?;
            let state = machine.stream(number(stream))?;
            match &state.capture {
                None => return Err(Error::InvalidValue),
                Some(capture) if capture.owner != thread::current().id() => return Err(Error::CaptureWrongThread),
                Some(_) => {}
            }
            state.capture.take().map(Capture::end)
        };
        // Dropping graphs frees their memory, which takes the machine's lock.
        match ended {
            Some(Ok(made)) => {
                let mut machine = machine();
                let new = machine.handle();
                machine.graphs.insert(new, Arc::new(made));
                put(graph, handle(new))
            }
            Some(Err((error, _graph))) => {
                put(graph, std::ptr::null_mut())?;
                Err(error)
            }
            None => Err(Error::InvalidValue),
        }
    }
}
