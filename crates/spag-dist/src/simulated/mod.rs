//! A group of one process that takes the time, the memory and the copies of one rank of many.
//!
//! Rank 0 is this process; the others do not exist. An all-gather copies rank 0's part to the others' places, and sums leave a buffer
//! as it is, as if the others' numbers were 0, so results have no meaning. A collective takes the time that a ring needs at the given
//! bandwidths, on a link that carries one at a time, beside the work of the device: on a GPU on streams of their own, whose waiting is
//! ended by the link. Not simulated: latencies, ranks that come late, and the share of a GPU's multiprocessors and memory bandwidth that
//! NCCL's kernels take.

#[cfg(feature = "cuda")]
mod device;
mod wire;

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use candle_core::{Device, Tensor};

use self::wire::{Job, Lane, Wire};
use crate::hosts::{HostPlaces, Members, Scope, ScopeTraffic};
use crate::tcp::with_bytes;
use crate::{Collective, Error, HostGroups, Pending, ProcessGroup, Result, Single, Traffic};

/// Which collectives of a simulated group go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherPriority {
    /// Those [with priority](ProcessGroup::with_priority).
    Overtake,
    /// Those that were started first.
    InTurn,
}

/// The ranks that a [`SimulatedGroup`] simulates, and the links between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedRanks {
    /// All ranks, at least 1.
    pub size: usize,
    /// Ranks of a host, at least 1; they follow each other.
    pub local_size: usize,
    /// Bytes per second that a rank sends to the next one of its host: the bus bandwidth. If it is infinite, no time passes.
    pub link: f64,
    /// Bytes per second between hosts, per host and in each direction.
    pub network: f64,
    /// The order of collectives.
    pub priority: GatherPriority,
}

/// Rank 0 of ranks that do not exist.
#[derive(Debug)]
pub struct SimulatedGroup {
    // Before the links, which have to carry what its streams wait for.
    #[cfg(feature = "cuda")]
    device: Option<device::DeviceLane>,
    members: Members,
    lane: Lane,
    run: Arc<Run>,
}

/// What the groups of a process share.
#[derive(Debug)]
struct Run {
    ranks: SimulatedRanks,
    #[cfg(feature = "cuda")]
    device: Device,
    rings: Vec<Members>,
    places: HostPlaces,
    /// Between the ranks of a host.
    link: Wire,
    /// Between hosts.
    network: Wire,
    traffic: Mutex<ScopeTraffic>,
}

impl SimulatedGroup {
    /// The group of all ranks, for buffers on `device` and on the CPU.
    ///
    /// # Errors
    /// No thread or stream can be made, or this build has no streams for the device.
    pub fn start(ranks: SimulatedRanks, device: &Device) -> Result<Self> {
        if !device.is_cpu() && cfg!(not(feature = "cuda")) {
            return Err(Error::NoGroup { device: format!("{device:?}") });
        }
        let places = HostPlaces::numbered_by_host(ranks.size.max(1), ranks.local_size.max(1));
        let rings = places.rings_of(0);
        let members = rings[0].clone();
        let run = Run {
            ranks,
            #[cfg(feature = "cuda")]
            device: device.clone(),
            rings,
            places,
            link: Wire::start("simulated-link")?,
            network: Wire::start("simulated-network")?,
            traffic: Mutex::default(),
        };
        Self::of(Arc::new(run), members, Lane::Ordinary)
    }

    fn of(run: Arc<Run>, members: Members, lane: Lane) -> Result<Self> {
        Ok(Self {
            #[cfg(feature = "cuda")]
            device: match &run.device {
                Device::Cuda(device) => Some(device::DeviceLane::new(&device.cuda_stream(), lane)?),
                _ => None,
            },
            members,
            lane,
            run,
        })
    }

    /// The time that the links of all its groups have carried collectives.
    pub fn busy(&self) -> Duration {
        self.run.link.busy() + self.run.network.busy()
    }

    /// The link that bounds this ring, and its bytes per second.
    fn wire(&self) -> (&Wire, f64) {
        let Run { ranks, link, network, .. } = &*self.run;
        match self.members.scope {
            Scope::World if ranks.local_size < ranks.size => (network, ranks.network.min(ranks.link)),
            Scope::World | Scope::WithinHost => (link, ranks.link),
            // The ranks of a host share its network.
            Scope::BetweenHosts => (network, ranks.network / ranks.local_size as f64),
        }
    }

    /// The time of a collective of which a rank sends so many bytes.
    fn time_of(&self, sent: u64) -> Duration {
        if self.run.ranks.link.is_infinite() {
            return Duration::ZERO;
        }
        // At most some centuries, which only a bandwidth of nearly 0 takes.
        Duration::try_from_secs_f64(sent as f64 / self.wire().1).unwrap_or(Duration::from_secs(1 << 34))
    }

    fn send(&self, time: Duration, ready: impl FnMut() -> bool + Send + 'static, done: impl FnOnce() + Send + 'static) {
        self.wire().0.send(self.lane, Job { time, ready: Box::new(ready), done: Box::new(done) });
    }

    fn start_on_cpu(&self, collective: Collective, time: Duration) -> Pending {
        let (sender, sent) = mpsc::channel();
        let size = self.size();
        let done = move || {
            let copied = match &collective {
                Collective::AllGather(buffer) => copy_parts(buffer, size),
                _ => Ok(()),
            };
            // Dropped before the caller continues, which may free or reuse the buffer.
            drop(collective);
            // Fails if the caller has dropped its handle.
            let _ = sender.send(copied);
        };
        self.send(time, || true, done);
        let ended = || Error::Tensor("the thread of a simulated link has ended".into());
        Pending::new(move || sent.recv().map_err(|_| ended())?)
    }

    /// A group of one of the run's rings.
    fn ring(&self, scope: Scope) -> Result<Arc<dyn ProcessGroup>> {
        Ok(match self.run.rings.iter().find(|members| members.scope == scope) {
            Some(members) => Arc::new(Self::of(Arc::clone(&self.run), members.clone(), self.lane)?),
            None => Arc::new(Single),
        })
    }
}

/// Copies the first part of a buffer on the CPU over the others.
fn copy_parts(buffer: &Tensor, size: usize) -> Result<()> {
    with_bytes(buffer, |bytes| {
        let part = bytes.len() / size;
        (1..size).for_each(|rank| bytes.copy_within(..part, rank * part));
    })
}

impl ProcessGroup for SimulatedGroup {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        self.members.ranks().len()
    }

    fn start(&self, collective: Collective) -> Result<Pending> {
        collective.check(self.size())?;
        if collective.buffer().is_some_and(|buffer| buffer.elem_count() == 0) {
            return Ok(Pending::done());
        }
        let (sent, received) = collective.ring_traffic(0, self.size());
        let moved = self.members.traffic(sent, received);
        self.run.traffic.lock().unwrap_or_else(PoisonError::into_inner).add(self.members.scope, moved);
        let time = self.time_of(sent);
        #[cfg(feature = "cuda")]
        if let (Some(lane), Some(buffer)) = (&self.device, collective.buffer().filter(|on| on.device().is_cuda())) {
            let buffer = buffer.clone();
            return lane.start(&collective, buffer, self.size(), |ready, done| self.send(time, ready, done));
        }
        Ok(self.start_on_cpu(collective, time))
    }

    fn traffic(&self) -> Traffic {
        self.run.traffic.lock().unwrap_or_else(PoisonError::into_inner).of(self.members.scope)
    }

    fn with_priority(&self) -> Result<Arc<dyn ProcessGroup>> {
        let lane = match self.run.ranks.priority {
            GatherPriority::Overtake => Lane::Urgent,
            GatherPriority::InTurn => Lane::Ordinary,
        };
        Ok(Arc::new(Self::of(Arc::clone(&self.run), self.members.clone(), lane)?))
    }

    fn by_host(&self) -> Result<Option<HostGroups>> {
        self.run.places.ranks_per_host()?;
        if self.members.scope != Scope::World || self.run.ranks.local_size >= self.run.ranks.size {
            return Ok(None);
        }
        Ok(Some(HostGroups { within: self.ring(Scope::WithinHost)?, between: self.ring(Scope::BetweenHosts)? }))
    }

    fn abort(&self, _reason: &str) {}
}
