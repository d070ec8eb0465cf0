//! The thread that runs a group's collectives in their start order.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use candle_core::{DType, Device, Tensor};

use super::add::adder;
use super::header::Header;
use super::ring::{Ring, RingError, RingOp};
use super::schedule::{self, Step};
use super::state::{Command, GroupState};
use crate::error::ranks_text;
use crate::hosts::{Members, Scope};
use crate::{Collective, Error, Result};

/// Time that a rank waits for rank 0 to decide which rank failed first.
const DECISION_TIMEOUT: Duration = Duration::from_secs(5);

/// A collective that has been started.
pub(crate) struct Job {
    pub(crate) scope: Scope,
    pub(crate) header: Header,
    pub(crate) collective: Collective,
    pub(crate) done: Sender<Result<()>>,
}

/// Runs jobs until the channel closes, each on the ring of its scope. A collective without progress for `timeout` fails.
///
/// Rings share one thread, so that all ranks run the collectives of all rings in one order.
pub(crate) fn run_collectives(mut rings: Vec<Ring>, jobs: &Receiver<Job>, state: &GroupState, timeout: Duration) {
    while let Ok(Job { scope, header, collective, done }) = jobs.recv() {
        let ring = rings.iter_mut().find(|ring| ring.members.scope == scope);
        let result = match (state.failure(), ring) {
            (Some(error), _) => Err(error),
            // Groups are made for the rings that exist only.
            (None, None) => Err(Error::Tensor(format!("{header}: there is no such ring"))),
            (None, Some(ring)) => run_one(ring, header, &collective, state, timeout),
        };
        // Dropped before the caller continues, which may free or reuse the buffer.
        drop(collective);
        // Fails if the caller has dropped its handle.
        let _ = done.send(result);
    }
}

fn run_one(
    ring: &mut Ring,
    header: Header,
    collective: &Collective,
    state: &GroupState,
    timeout: Duration,
) -> Result<()> {
    state.record_begun(header);
    let members = ring.members.clone();
    let position = members.position();
    let (buffer, length) = match collective.buffer() {
        Some(buffer) => (buffer.clone(), buffer.elem_count()),
        // A barrier is an all-gather of one byte per rank.
        None => (Tensor::zeros(position.size, DType::U8, &Device::Cpu)?, position.size),
    };
    let width = buffer.dtype().size_in_bytes();
    let schedule = match collective {
        Collective::AllReduce(_) => schedule::all_reduce(position, length, width),
        Collective::ReduceScatter(_) => schedule::reduce_scatter(position, length, width),
        Collective::AllGather(_) | Collective::Barrier => schedule::all_gather(position, length, width),
        Collective::Broadcast(_, root) => schedule::broadcast(position, *root, length * width),
    };
    let op = RingOp { header, schedule: &schedule, buffer: &buffer, add: adder(buffer.dtype()), timeout };
    let error = match ring.run(op, state) {
        Ok(()) => {
            if collective.buffer().is_some() {
                let sum = |bytes: fn(&Step) -> usize| schedule.iter().map(bytes).sum::<usize>() as u64;
                let moved = members.traffic(sum(|step| step.send.len()), sum(|step| step.receive.len()));
                state.add_traffic(members.scope, moved);
            }
            return Ok(());
        }
        Err(error) => error,
    };
    match error {
        RingError::GroupFailed => {}
        RingError::Next(reason) => state.command(Command::ReportSuspect(Error::lost(members.next(), reason))),
        RingError::Previous(reason) => state.command(Command::ReportSuspect(Error::lost(members.previous(), reason))),
        RingError::OutOfStep(theirs) => {
            state.command(Command::ReportMismatch { own: header, neighbour: members.previous(), theirs });
        }
        RingError::TimedOut => state.fail_all(timed_out(state, &members, header, timeout)),
        RingError::Buffer(error) => {
            // The other ranks cannot continue without this rank's data.
            state.fail_all(Error::aborted(state.position.rank, format!("{header}: {error}")));
            return Err(error);
        }
    }
    Err(state.wait_for_failure(DECISION_TIMEOUT).unwrap_or_else(|| {
        let error = Error::lost(members.previous(), "the ring broke, and rank 0 did not report where");
        state.fail_all(error.clone());
        state.failure().unwrap_or(error)
    }))
}

/// The error of a collective without progress although all ranks send heartbeats; names a rank that has not started it.
fn timed_out(state: &GroupState, members: &Members, header: Header, timeout: Duration) -> Error {
    let started = state.started();
    let missing: Vec<usize> =
        members.ranks().iter().copied().filter(|rank| started[*rank] <= header.sequence).collect();
    let what = format!("{header} (number {})", header.sequence + 1);
    let seconds = timeout.as_secs_f64();
    match missing.first() {
        Some(rank) => Error::lost(*rank, format!("{} did not start {what} within {seconds} s", ranks_text(&missing))),
        None => {
            let reason = format!("{what} made no progress for {seconds} s, although all ranks have started it");
            Error::lost(members.previous(), reason)
        }
    }
}
