//! The group itself: what callers hold.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::conductor::{Job, conduct};
use super::control::{Pace, watch};
use super::fault::Fault;
use super::header::Header;
use super::join::meet;
use super::ring::Ring;
use super::schedule::Place;
use super::state::{Order, Shared};
use crate::net::JoinOptions;
use crate::{Collective, Error, LaunchEnv, Pending, ProcessGroup, Result, Traffic};

/// How long a rank that ends the run waits until rank 0, or everybody, can know why.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Ranks with buffers on the CPU, in a ring of TCP connections.
///
/// Dropping it finishes what has been started and says goodbye to the others: they fail only if they start more
/// collectives.
#[derive(Debug)]
pub struct TcpGroup {
    shared: Arc<Shared>,
    /// `None` while it is dropped.
    jobs: Mutex<Option<Sender<Job>>>,
    conductor: Option<JoinHandle<()>>,
    control: Option<JoinHandle<()>>,
}

impl TcpGroup {
    /// Joins the other ranks that `env` speaks of; returns when all have come and are connected.
    ///
    /// # Errors
    /// Ranks that do not come, or do not fit (another number of ranks, version or token), are named on every rank.
    /// An environment of one rank names no place to meet, which is an error: see [`join`](crate::join).
    pub fn join(env: &LaunchEnv, options: &JoinOptions) -> Result<Self> {
        let mut joined = meet(env, options)?;
        let place = Place { rank: env.rank, size: env.world_size };
        let shared = Arc::new(Shared::new(place)?);
        let pace = Pace { heartbeat: options.heartbeat, silence: options.silence };
        let (peers, watched) = (joined.take_peers(), Arc::clone(&shared));
        let control = thread("control", move || watch(peers, watched, pace))?;
        let mut group =
            Self { shared: Arc::clone(&shared), jobs: Mutex::new(None), conductor: None, control: Some(control) };
        let ring = joined
            .close_ring(&shared)
            .and_then(|(next, previous)| {
                Ring::new(next, previous).map_err(|error| Error::System { what: "the ring", reason: error.to_string() })
            })
            .inspect_err(|error| group.abort(&error.to_string()))?;
        let (sender, jobs) = mpsc::channel();
        let patience = options.collective_timeout;
        group.conductor = Some(thread("collectives", move || conduct(ring, &jobs, &shared, patience))?);
        group.jobs = Mutex::new(Some(sender));
        Ok(group)
    }
}

#[cfg(feature = "cuda")]
impl TcpGroup {
    /// What its threads know, for a group that is built on it.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map_err(|error| Error::System { what: "a thread for the group", reason: error.to_string() })
}

impl ProcessGroup for TcpGroup {
    fn rank(&self) -> usize {
        self.shared.place.rank
    }

    fn size(&self) -> usize {
        self.shared.place.size
    }

    fn start(&self, collective: Collective) -> Result<Pending> {
        collective.check(self.size())?;
        let operation = collective.name();
        let wrong = |reason: String| Error::Buffer { operation, reason };
        if let Some(buffer) = collective.buffer() {
            let format = buffer.dtype();
            if !buffer.device().is_cpu() {
                return Err(wrong("this group moves buffers on the CPU only".into()));
            }
            let sums = matches!(collective, Collective::AllReduce(_) | Collective::ReduceScatter(_));
            if sums && super::add::adder(format).is_none() {
                return Err(wrong(format!("numbers of type {} are not summed", format.as_str())));
            }
        }
        let (done, result) = mpsc::channel();
        self.shared.begin(|sequence| {
            let format = collective.buffer().map_or("none", |buffer| buffer.dtype().as_str());
            let header = Header::new(sequence, &collective)
                .ok_or_else(|| wrong(format!("numbers of type {format} are not moved")))?;
            let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = jobs.as_ref().map(|jobs| jobs.send(Job { header, collective, done }));
            sent.and_then(Result::ok).ok_or_else(|| ended(self.rank()))
        })?;
        let rank = self.rank();
        Ok(Pending::new(move || result.recv().unwrap_or_else(|_| Err(ended(rank)))))
    }

    fn traffic(&self) -> Traffic {
        self.shared.traffic()
    }

    fn abort(&self, reason: &str) {
        self.shared.raise(Fault::aborted(self.rank(), reason));
        self.shared.wait_for_quiet(LAST_WORDS);
    }
}

fn ended(rank: usize) -> Error {
    Error::Lost { rank, reason: "the thread that does its collectives has ended".into() }
}

impl Drop for TcpGroup {
    fn drop(&mut self) {
        // No more jobs: the conductor ends after those in line.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(conductor) = self.conductor.take() {
            let _ = conductor.join();
        }
        self.shared.order(Order::Leave);
        if let Some(control) = self.control.take() {
            let _ = control.join();
        }
    }
}
