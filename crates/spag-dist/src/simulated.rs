//! One rank's schedule with the other ranks' part of the time modelled.
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
//! Where ranks fill more than one node, each step is as slow as the slower one of the two links. One collective occupies
//! the links after those before it. Adding, and what communication takes from the processor's time, are not modelled.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use candle_core::Tensor;

use crate::{Collective, Error, Pending, ProcessGroup, Result, Traffic};

/// How fast a connection is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bytes a second in each direction.
    pub bandwidth: f64,
    /// From the start of a message to its first byte at the other end.
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

/// The links between the ranks of a modelled run. Shown as text, it says all that is assumed.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// What is modelled, and where the figures are from.
    pub name: String,
    /// Ranks of a node; the last node may have fewer.
    pub ranks_per_node: usize,
    /// Of a rank to the next one in its node.
    pub inside: Link,
    /// Of a node to the next one: all of its adapters together, as NCCL makes a ring for each.
    pub between: Link,
}

/// Latencies of the presets. No vendor publishes them for a hop of a collective; these are assumptions of the order that
/// is seen in practice, and matter for small buffers only.
const HOP_INSIDE: Duration = Duration::from_micros(3);
const HOP_BETWEEN: Duration = Duration::from_micros(8);

impl Links {
    /// The same link between all ranks.
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

    /// The time of one step of a ring of `size` ranks that moves `bytes` over every link.
    fn step(&self, size: usize, bytes: f64) -> Duration {
        match size > self.ranks_per_node {
            true => self.inside.time(bytes).max(self.between.time(bytes)),
            false => self.inside.time(bytes),
        }
    }

    /// How long a collective of `size` ranks on buffers of `bytes` bytes takes.
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

fn bytes(buffer: &Tensor) -> usize {
    buffer.elem_count() * buffer.dtype().size_in_bytes()
}

/// Rank 0 of a group of which the other ranks are modelled.
///
/// Starting a collective does at once what there is to do to the buffer, which takes this process's own time, and
/// [`Pending::wait`] sleeps on the host until the links would be done: computing between the two hides communication as
/// it does in a real run. The other ranks are taken to be in step.
///
/// The data are not those of a real run. What other ranks would send is taken to be what this rank has: an all-gather
/// copies this rank's part to all places. Sums are left as they are, as if the others had added zeros, so that numbers
/// stay finite however often they are summed. A broadcast from any root leaves the buffer as it is.
#[derive(Debug)]
pub struct Simulated {
    size: usize,
    links: Links,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the links are done with everything so far.
    free: Instant,
    traffic: Traffic,
    aborted: Option<String>,
}

impl Simulated {
    /// Rank 0 of `size` ranks, at least 1.
    pub fn new(size: usize, links: Links) -> Self {
        let state = State { free: Instant::now(), traffic: Traffic::default(), aborted: None };
        Self { size: size.max(1), links, state: Mutex::new(state) }
    }

    /// What is assumed of the links.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Bytes that this rank would send and receive.
    fn traffic_of(&self, collective: &Collective) -> Traffic {
        let all = collective.buffer().map_or(0, bytes) as u64;
        let size = self.size as u64;
        let around = all * (size - 1) / size;
        match collective {
            Collective::AllReduce(_) => Traffic { sent: 2 * around, received: 2 * around },
            Collective::ReduceScatter(_) | Collective::AllGather(_) => Traffic { sent: around, received: around },
            Collective::Broadcast(_, root) => Traffic {
                // The last of the ring passes nothing on; rank 0 is that where the root is rank 1.
                sent: if size == 1 || *root == 1 { 0 } else { all },
                received: if *root == 0 { 0 } else { all },
            },
            Collective::Barrier => Traffic::default(),
        }
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
        let traffic = self.traffic_of(&collective);
        let end = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(reason) = &state.aborted {
                return Err(Error::Aborted { rank: 0, reason: reason.clone() });
            }
            state.traffic.sent += traffic.sent;
            state.traffic.received += traffic.received;
            state.free = state.free.max(Instant::now()) + time;
            state.free
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
