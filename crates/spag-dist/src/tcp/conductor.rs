//! The thread that does a group's collectives, in the order in which they were started.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use candle_core::{DType, Device, Tensor};

use super::add::adder;
use super::fault::Fault;
use super::header::Header;
use super::ring::{Ring, Stop, Task};
use super::schedule;
use super::state::{Order, Shared};
use crate::error::named;
use crate::{Collective, Error, Result};

/// How long rank 0 is given to find out where a failure began, beyond the time that it takes to notice a silence.
const VERDICT: Duration = Duration::from_secs(5);

/// A collective in line.
pub(crate) struct Job {
    pub(crate) header: Header,
    pub(crate) collective: Collective,
    pub(crate) done: Sender<Result<()>>,
}

/// Does jobs until there are no more. `patience`: nothing may move for so long.
pub(crate) fn conduct(mut ring: Ring, jobs: &Receiver<Job>, shared: &Arc<Shared>, patience: Duration) {
    while let Ok(Job { header, collective, done }) = jobs.recv() {
        let result = match shared.fault() {
            Some(fault) => Err(fault.into()),
            None => perform(&mut ring, header, &collective, shared, patience),
        };
        // Before the caller goes on: the memory may be wanted back.
        drop(collective);
        // Nobody waits for it: that is allowed.
        let _ = done.send(result);
    }
}

fn perform(
    ring: &mut Ring,
    header: Header,
    collective: &Collective,
    shared: &Shared,
    patience: Duration,
) -> Result<()> {
    shared.note_begun(header);
    let place = shared.place;
    let (buffer, length) = match collective.buffer() {
        Some(buffer) => (buffer.clone(), buffer.elem_count()),
        // A byte of every rank goes round: whoever has them all knows that all have come.
        None => (Tensor::zeros(place.size, DType::U8, &Device::Cpu)?, place.size),
    };
    let width = buffer.dtype().size_in_bytes();
    let schedule = match collective {
        Collective::AllReduce(_) => schedule::all_reduce(place, length, width),
        Collective::ReduceScatter(_) => schedule::reduce_scatter(place, length, width),
        Collective::AllGather(_) | Collective::Barrier => schedule::all_gather(place, length, width),
        Collective::Broadcast(_, root) => schedule::broadcast(place, *root, length * width),
    };
    let task = Task { header, schedule: &schedule, buffer: &buffer, add: adder(buffer.dtype()), patience };
    let stop = match ring.run(task, shared) {
        Ok(traffic) => {
            // The bytes of a barrier are nobody's buffer.
            if collective.buffer().is_some() {
                shared.count(traffic);
            }
            return Ok(());
        }
        Err(stop) => stop,
    };
    match stop {
        Stop::Failed => {}
        Stop::Next(reason) => shared.order(Order::Suspect(Fault::lost(place.next(), reason))),
        Stop::Previous(reason) => shared.order(Order::Suspect(Fault::lost(place.previous(), reason))),
        Stop::OutOfStep(theirs) => shared.order(Order::Differ { own: header, theirs }),
        Stop::Stalled => shared.raise(stalled(shared, header, patience)),
        Stop::Buffer(error) => {
            // The others cannot go on without this rank's data.
            shared.raise(Fault::aborted(place.rank, format!("{header}: {error}")));
            return Err(error);
        }
    }
    let fault = shared.wait_for_fault(VERDICT).unwrap_or_else(|| {
        let fault = Fault::lost(place.previous(), "the ring broke, and rank 0 did not say where".to_owned());
        shared.raise(fault.clone());
        shared.fault().unwrap_or(fault)
    });
    Err(Error::from(fault))
}

/// A collective that does not end, although all ranks show that they live: who has not come to it?
fn stalled(shared: &Shared, header: Header, patience: Duration) -> Fault {
    let place = shared.place;
    let started = shared.started();
    let missing: Vec<usize> = (0..place.size).filter(|rank| started[*rank] <= header.sequence).collect();
    let what = format!("{header} (number {})", header.sequence + 1);
    let seconds = patience.as_secs_f64();
    match missing.first() {
        Some(rank) => {
            let reason = format!("{} did not come to {what} within {seconds} s", named(&missing));
            Fault::lost(*rank, reason)
        }
        None => {
            let reason = format!("{what} has not moved for {seconds} s, although all ranks have started it");
            Fault::lost(place.previous(), reason)
        }
    }
}
