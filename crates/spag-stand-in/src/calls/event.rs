//! Events.

use std::ffi::c_void;
use std::sync::Arc;

use crate::call::{calls, handle, number, put};
use crate::machine::{Event, machine};
use crate::queue::{Task, check_sticky};
use crate::result::Error;

calls! {
    fn cuEventCreate(event: *mut *mut c_void, _flags: u32) {
        let mut machine = machine();
        machine.need_context()?;
        let new = machine.handle();
        machine.events.insert(new, Event::default());
        put(event, handle(new))
    }

    fn cuEventDestroy_v2(event: *mut c_void) {
        let mut machine = machine();
        machine.need_context()?;
        machine.events.remove(&number(event)).map(drop).ok_or(Error::InvalidHandle)
    }

    fn cuEventRecord(event: *mut c_void, stream: *mut c_void) {
        let mut machine = machine();
        machine.need_context()?;
        let state = machine.stream(number(stream))?;
        let (queue, clock, captured) = (state.queue.clone(), state.clock.clone(), state.capture.is_some());
        let event = machine.events.get_mut(&number(event)).ok_or(Error::InvalidHandle)?;
        event.captured = captured;
        if !captured {
            event.recorded += 1;
            event.clock = clock;
            queue.push(Task::Record(Arc::clone(&event.signal), event.recorded));
        }
        Ok(())
    }

    fn cuEventQuery(event: *mut c_void) {
        let mut machine = machine();
        machine.need_context()?;
        let event = machine.events.get(&number(event)).ok_or(Error::InvalidHandle)?;
        if event.captured {
            return Err(Error::CapturedEvent);
        }
        if !event.signal.is_at(event.recorded) {
            return Err(Error::NotReady);
        }
        let clock = event.clock.clone();
        machine.host_waited(&clock);
        Ok(())
    }

    fn cuEventSynchronize(event: *mut c_void) {
        let (signal, recorded, clock) = {
            let machine = machine();
            machine.need_context()?;
            let event = machine.events.get(&number(event)).ok_or(Error::InvalidHandle)?;
            if event.captured {
                return Err(Error::CapturedEvent);
            }
            (Arc::clone(&event.signal), event.recorded, event.clock.clone())
        };
        signal.wait(recorded);
        machine().host_waited(&clock);
        check_sticky()
    }
}
