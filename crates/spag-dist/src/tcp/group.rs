//! The TCP process group.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::collectives::{Job, run_collectives};
use super::control::Control;
use super::header::Header;
use super::join::join_ranks;
use super::ring::Ring;
use super::schedule::RingPosition;
use super::state::{Command, GroupState};
use crate::net::{JoinOptions, Peers, thread};
use crate::{Collective, Error, LaunchEnv, Pending, ProcessGroup, Result, Traffic};

/// Time that [`TcpGroup::abort`] waits for its message to be sent.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// CPU ranks in a ring of TCP connections.
///
/// Dropping it completes the started collectives and leaves the group. The other ranks fail only if they start more
/// collectives.
#[derive(Debug)]
pub struct TcpGroup {
    state: Arc<GroupState>,
    /// `None` during drop.
    jobs: Mutex<Option<Sender<Job>>>,
    collectives: Option<JoinHandle<()>>,
    control: Option<JoinHandle<()>>,
}

impl TcpGroup {
    /// Joins the process group of `env`; returns when all ranks are connected.
    ///
    /// # Errors
    /// Ranks do not join, or have a different world size, version or token; every rank names them. Or the environment
    /// has a single rank and no rendezvous: see [`join`](crate::join).
    pub fn join(env: &LaunchEnv, options: &JoinOptions) -> Result<Self> {
        let mut joined = join_ranks(env, options)?;
        let state = Arc::new(GroupState::new(RingPosition { rank: env.rank, size: env.world_size })?);
        let control = Control {
            state: Arc::clone(&state),
            peers: std::mem::replace(&mut joined.peers, Peers::new(options)),
            suspect: None,
            mismatch: None,
        };
        let control = Some(thread("control", move || control.run())?);
        let mut group = Self { state: Arc::clone(&state), jobs: Mutex::new(None), collectives: None, control };
        let ring = joined
            .connect_ring(&state)
            .and_then(|(next, previous)| Ring::new(next, previous).map_err(Error::system("the ring")))
            .inspect_err(|error| group.abort(&error.to_string()))?;
        let (sender, jobs) = mpsc::channel();
        let timeout = options.collective_timeout;
        group.collectives = Some(thread("collectives", move || run_collectives(ring, &jobs, &state, timeout))?);
        group.jobs = Mutex::new(Some(sender));
        Ok(group)
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn state(&self) -> &Arc<GroupState> {
        &self.state
    }
}

/// The error if the thread that runs collectives has ended.
pub(crate) fn thread_ended(rank: usize) -> Error {
    Error::lost(rank, "the thread that runs its collectives has ended")
}

impl ProcessGroup for TcpGroup {
    fn rank(&self) -> usize {
        self.state.position.rank
    }

    fn size(&self) -> usize {
        self.state.position.size
    }

    fn start(&self, collective: Collective) -> Result<Pending> {
        collective.check(self.size())?;
        let operation = collective.name();
        let wrong = |reason: String| Error::Buffer { operation, reason };
        if let Some(buffer) = collective.buffer() {
            let format = buffer.dtype();
            if !buffer.device().is_cpu() {
                return Err(wrong("this group takes buffers on the CPU only".into()));
            }
            let sums = matches!(collective, Collective::AllReduce(_) | Collective::ReduceScatter(_));
            if sums && super::add::adder(format).is_none() {
                return Err(wrong(format!("numbers of type {} are not summed", format.as_str())));
            }
        }
        let (done, result) = mpsc::channel();
        self.state.start(|sequence| {
            let format = collective.buffer().map_or("none", |buffer| buffer.dtype().as_str());
            let header = Header::new(sequence, &collective)
                .ok_or_else(|| wrong(format!("numbers of type {format} are not supported")))?;
            let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = jobs.as_ref().map(|jobs| jobs.send(Job { header, collective, done }));
            sent.and_then(Result::ok).ok_or_else(|| thread_ended(self.rank()))
        })?;
        let rank = self.rank();
        Ok(Pending::new(move || result.recv().unwrap_or_else(|_| Err(thread_ended(rank)))))
    }

    fn traffic(&self) -> Traffic {
        self.state.traffic()
    }

    fn abort(&self, reason: &str) {
        self.state.fail_all(Error::aborted(self.rank(), reason));
        self.state.wait_until_idle(ABORT_TIMEOUT);
    }
}

impl Drop for TcpGroup {
    fn drop(&mut self) {
        // Ends the thread after the jobs in the channel.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(collectives) = self.collectives.take() {
            let _ = collectives.join();
        }
        self.state.command(Command::Leave);
        if let Some(control) = self.control.take() {
            let _ = control.join();
        }
    }
}
