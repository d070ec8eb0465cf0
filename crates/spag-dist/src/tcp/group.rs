//! The TCP process group.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::collectives::{Job, run_collectives};
use super::control::Control;
use super::header::Header;
use super::join::join_ranks;
use super::schedule::RingPosition;
use super::state::{Command, GroupState};
use crate::hosts::{HostPlaces, Members, Scope};
use crate::net::{JoinOptions, Peers, thread};
use crate::{Collective, Error, HostGroups, LaunchEnv, Pending, ProcessGroup, Result, Single, Traffic};

/// Time that [`TcpGroup::abort`] waits for its message to be sent.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// CPU ranks in a ring of TCP connections.
///
/// Dropping it and its groups [by host](ProcessGroup::by_host) completes the started collectives and leaves the group. The other
/// ranks fail only if they start more collectives.
#[derive(Clone, Debug)]
pub struct TcpGroup {
    members: Members,
    connections: Arc<Connections>,
}

/// What the groups of a rank share: threads, connections and the first failure.
#[derive(Debug)]
struct Connections {
    state: Arc<GroupState>,
    places: HostPlaces,
    rings: Vec<Members>,
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
        let places = joined.places();
        let rings = places.rings_of(env.rank);
        let mut connections = Connections {
            state: Arc::clone(&state),
            places,
            rings,
            jobs: Mutex::new(None),
            collectives: None,
            control,
        };
        let rings = joined
            .connect_rings(&connections.rings, &state)
            .inspect_err(|error| connections.abort(&error.to_string()))?;
        let (sender, jobs) = mpsc::channel();
        let timeout = options.collective_timeout;
        connections.collectives = Some(thread("collectives", move || run_collectives(rings, &jobs, &state, timeout))?);
        connections.jobs = Mutex::new(Some(sender));
        // The first ring is that of all ranks.
        Ok(Self { members: connections.rings[0].clone(), connections: Arc::new(connections) })
    }

    /// The groups within the host and between hosts, each `None` if it is of one rank; `None` if all ranks are on one host.
    pub(crate) fn split_by_host(&self) -> Result<Option<[Option<Self>; 2]>> {
        let rings = &self.connections.rings;
        let of = |scope| {
            let ring = rings.iter().find(|ring| ring.scope == scope);
            ring.map(|ring| Self { members: ring.clone(), connections: Arc::clone(&self.connections) })
        };
        Ok(match self.members.scope {
            Scope::WithinHost => None,
            Scope::BetweenHosts => Some([None, of(Scope::BetweenHosts)]),
            Scope::World => match self.connections.places.ranks_per_host()? {
                all if all == self.size() => None,
                1 => Some([None, of(Scope::World)]),
                _ => Some([of(Scope::WithinHost), of(Scope::BetweenHosts)]),
            },
        })
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn state(&self) -> &Arc<GroupState> {
        &self.connections.state
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }
}

/// The error if the thread that runs collectives has ended.
pub(crate) fn thread_ended(rank: usize) -> Error {
    Error::lost(rank, "the thread that runs its collectives has ended")
}

impl ProcessGroup for TcpGroup {
    fn rank(&self) -> usize {
        self.members.position().rank
    }

    fn size(&self) -> usize {
        self.members.position().size
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
        let Connections { state, jobs, .. } = &*self.connections;
        let (scope, rank) = (self.members.scope, state.position.rank);
        state.start(|sequence| {
            let format = collective.buffer().map_or("none", |buffer| buffer.dtype().as_str());
            let header = Header::new(sequence, scope, &collective)
                .ok_or_else(|| wrong(format!("numbers of type {format} are not supported")))?;
            let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let sent = jobs.as_ref().map(|jobs| jobs.send(Job { scope, header, collective, done }));
            sent.and_then(Result::ok).ok_or_else(|| thread_ended(rank))
        })?;
        Ok(Pending::new(move || result.recv().unwrap_or_else(|_| Err(thread_ended(rank)))))
    }

    fn traffic(&self) -> Traffic {
        self.connections.state.traffic(self.members.scope)
    }

    fn with_priority(&self) -> Result<Arc<dyn ProcessGroup>> {
        Ok(Arc::new(self.clone()))
    }

    fn by_host(&self) -> Result<Option<HostGroups>> {
        let group = |group: Option<Self>| -> Arc<dyn ProcessGroup> {
            match group {
                Some(group) => Arc::new(group),
                None => Arc::new(Single),
            }
        };
        let split = self.split_by_host()?;
        Ok(split.map(|[within, between]| HostGroups { within: group(within), between: group(between) }))
    }

    fn abort(&self, reason: &str) {
        self.connections.abort(reason);
    }
}

impl Connections {
    fn abort(&self, reason: &str) {
        self.state.fail_all(Error::aborted(self.state.position.rank, reason));
        self.state.wait_until_idle(ABORT_TIMEOUT);
    }
}

impl Drop for Connections {
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
