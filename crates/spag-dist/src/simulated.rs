//! A process group of one real rank, with a model of the time that collectives with the other ranks take.
//!
//! Times are those of a ring, as [`TcpGroup`](crate::TcpGroup) and NCCL use for large buffers. With N ranks, S bytes,
//! and a step that moves c bytes over the slowest link of the ring in t(c) = latency + c / bandwidth:
//!
//! | collective       | time                        |
//! |------------------|-----------------------------|
//! | `reduce_scatter` | (N − 1) · t(S / N)          |
//! | `all_gather`     | (N − 1) · t(S / N)          |
//! | `all_reduce`     | 2 · (N − 1) · t(S / N)      |
//! | `broadcast`      | (N − 1) · latency + S / bandwidth (in slices, so that all hops move at once) |
//! | `barrier`        | (N − 1) · latency           |
//!
//! If the ranks fill more than one node, a step takes as long as the slower of the two links. Collectives run one after
//! another. The time of additions and the processor time of communication are not modelled.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use candle_core::Tensor;

use crate::{Collective, Error, Pending, ProcessGroup, Result, Traffic};

/// The speed of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bytes per second in each direction.
    pub bandwidth: f64,
    /// Time until the first byte arrives.
    pub latency: Duration,
}

impl Link {
    fn time(self, bytes: f64) -> Duration {
        self.latency + Duration::try_from_secs_f64(bytes / self.bandwidth).unwrap_or(Duration::MAX / 4)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.latency.as_secs_f64() * 1e6;
        write!(f, "{} GB/s each way, {micros} µs a hop", self.bandwidth / 1e9)
    }
}

/// The links between the ranks of a modelled run. `Display` shows all assumptions.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// The hardware, and the source of the figures.
    pub name: String,
    /// The last node may have fewer.
    pub ranks_per_node: usize,
    /// Between ranks of one node.
    pub inside: Link,
    /// Between nodes: all network adapters of a node together, as NCCL runs a ring on each.
    pub between: Link,
}

/// Latencies of the presets: assumptions of the usual order of magnitude, as vendors publish none for a hop of a
/// collective. They matter for small buffers only.
const HOP_INSIDE: Duration = Duration::from_micros(3);
const HOP_BETWEEN: Duration = Duration::from_micros(8);

impl Links {
    /// One kind of link between all ranks.
    pub fn uniform(name: &str, link: Link) -> Self {
        Self { name: name.to_owned(), ranks_per_node: usize::MAX, inside: link, between: link }
    }

    /// Nodes of 8 A100 GPUs with NVLink and InfiniBand, as in NVIDIA's DGX A100: third-generation NVLink moves 600 GB/s
    /// a GPU in both directions together (NVIDIA A100 data sheet), and a node has 8 ports of 200 Gb/s for computing
    /// (DGX A100 data sheet). Peaks; measured rates are lower.
    pub fn dgx_a100() -> Self {
        Self {
            name: "8 × A100 a node, NVLink 3 and 8 × 200 Gb/s InfiniBand (peaks of NVIDIA's A100 and DGX A100 data sheets)"
                .into(),
            ranks_per_node: 8,
            inside: Link { bandwidth: 300e9, latency: HOP_INSIDE },
            between: Link { bandwidth: 200e9, latency: HOP_BETWEEN },
        }
    }

    /// Nodes of 8 H200 GPUs with NVLink and InfiniBand, as in NVIDIA's DGX H200: fourth-generation NVLink moves 900 GB/s
    /// a GPU in both directions together (NVIDIA H200 data sheet), and a node has 8 ports of 400 Gb/s for computing (DGX
    /// H200 data sheet). Peaks; measured rates are lower.
    pub fn dgx_h200() -> Self {
        Self {
            name: "8 × H200 a node, NVLink 4 and 8 × 400 Gb/s InfiniBand (peaks of NVIDIA's H200 and DGX H200 data sheets)"
                .into(),
            ranks_per_node: 8,
            inside: Link { bandwidth: 450e9, latency: HOP_INSIDE },
            between: Link { bandwidth: 400e9, latency: HOP_BETWEEN },
        }
    }

    /// Nodes of 8 A100 GPUs on PCI Express, with one 100 Gb/s Ethernet port: 64 GB/s in both directions together (NVIDIA
    /// A100 data sheet, PCIe Gen4). Peaks.
    pub fn a100_pcie() -> Self {
        Self {
            name: "8 × A100 a node, PCIe 4.0 × 16 and 100 Gb/s Ethernet (peaks; NVIDIA's A100 data sheet)".into(),
            ranks_per_node: 8,
            inside: Link { bandwidth: 32e9, latency: HOP_INSIDE },
            between: Link { bandwidth: 12.5e9, latency: HOP_BETWEEN * 4 },
        }
    }

    /// One step of a ring of `size` ranks that moves `bytes` over every link.
    fn step(&self, size: usize, bytes: f64) -> Duration {
        let inside = self.inside.time(bytes);
        if size > self.ranks_per_node { inside.max(self.between.time(bytes)) } else { inside }
    }

    /// The time that a collective of `size` ranks takes.
    ///
    /// ```
    /// use std::time::Duration;
    /// use candle_core::{DType, Device, Tensor};
    /// use spag_dist::{Collective, Link, Links};
    ///
    /// let links = Links::uniform("slow", Link { bandwidth: 1e6, latency: Duration::ZERO });
    /// let buffer = Tensor::zeros(250_000, DType::F32, &Device::Cpu)?;
    /// // A megabyte on four ranks: 2 · 3 steps of a quarter of it.
    /// assert_eq!(links.time(4, &Collective::AllReduce(buffer)), Duration::from_millis(1500));
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    pub fn time(&self, size: usize, collective: &Collective) -> Duration {
        let Some(steps) = u32::try_from(size).ok().and_then(|size| size.checked_sub(1)).filter(|steps| *steps > 0)
        else {
            return Duration::ZERO;
        };
        let bytes = |buffer: &Tensor| buffer.elem_count() * buffer.dtype().size_in_bytes();
        let bytes = collective.buffer().map_or(0, bytes) as f64;
        let part = bytes / size as f64;
        match collective {
            Collective::AllReduce(_) => self.step(size, part) * steps * 2,
            Collective::ReduceScatter(_) | Collective::AllGather(_) => self.step(size, part) * steps,
            Collective::Broadcast(..) => self.step(size, bytes) + self.step(size, 0.0) * (steps - 1),
            Collective::Barrier => self.step(size, 0.0) * steps,
        }
    }
}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.inside)?;
        if self.ranks_per_node != usize::MAX {
            write!(f, " within a node of {} ranks, {} between nodes", self.ranks_per_node, self.between)?;
        }
        f.write_str("; collectives as rings, one after the other; sums and processor time of communication left out")
    }
}

/// Rank 0 of a group whose other ranks are modelled.
///
/// Starting a collective changes the buffer at once, and [`Pending::wait`] sleeps on the host until the modelled links
/// are done, so computing between the two hides communication as in a real run. The other ranks are assumed to be in
/// step.
///
/// The data differ from a real run. An all-gather copies this rank's part to all parts. Sums leave the buffer unchanged,
/// as if the other ranks had zeros, so that repeated sums stay finite. A broadcast leaves the buffer unchanged.
#[derive(Debug)]
pub struct Simulated {
    size: usize,
    links: Links,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the links have completed all collectives so far.
    links_free_at: Instant,
    traffic: Traffic,
    aborted: Option<String>,
}

impl Simulated {
    /// Rank 0 of `size` ranks, at least 1.
    pub fn new(size: usize, links: Links) -> Self {
        let state = State { links_free_at: Instant::now(), traffic: Traffic::default(), aborted: None };
        Self { size: size.max(1), links, state: Mutex::new(state) }
    }

    /// The modelled links.
    pub fn links(&self) -> &Links {
        &self.links
    }
}

impl ProcessGroup for Simulated {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        self.size
    }

    fn start(&self, collective: Collective) -> Result<Pending> {
        collective.check(self.size)?;
        let time = self.links.time(self.size, &collective);
        let traffic = collective.ring_traffic(0, self.size);
        let end = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(reason) = &state.aborted {
                return Err(Error::Aborted { rank: 0, reason: reason.clone() });
            }
            state.traffic.sent += traffic.sent;
            state.traffic.received += traffic.received;
            state.links_free_at = state.links_free_at.max(Instant::now()) + time;
            state.links_free_at
        };
        if let Collective::AllGather(buffer) = &collective {
            let part = buffer.elem_count() / self.size;
            if part > 0 {
                let own = buffer.narrow(0, 0, part)?.copy()?;
                for rank in 1..self.size {
                    buffer.slice_set(&own, 0, rank * part)?;
                }
            }
        }
        Ok(Pending::new(move || {
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            Ok(())
        }))
    }

    fn traffic(&self) -> Traffic {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).traffic
    }

    fn abort(&self, reason: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.aborted.get_or_insert_with(|| reason.to_owned());
    }
}
