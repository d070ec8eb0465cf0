//! Collectives, the process group trait, and the single-process group.

use std::sync::Arc;

use candle_core::Tensor;

use crate::{Error, HostGroups, Result};

/// A collective operation, in place on one flat buffer per rank.
///
/// A buffer is a contiguous 1-D tensor with the same length on every rank. Results are written into its storage,
/// which other tensors may share. Legend: N ranks, P elements per part, N·P elements per buffer, whose r-th part
/// belongs to rank r.
#[derive(Clone, Debug)]
pub enum Collective {
    /// Replaces every rank's buffer by the element-wise sum over all ranks. f32, bf16 or f64.
    ///
    /// Elements are summed in the order of [`Collective::ReduceScatter`] with parts of ⌈length / N⌉ elements, so both
    /// give bit-identical sums.
    AllReduce(Tensor),
    /// Sums the buffers (N·P elements; f32, bf16 or f64) and leaves the r-th part of the sum in the r-th part of rank r's
    /// buffer. The contents of the other parts are unspecified afterwards.
    ///
    /// Part r is summed in the order of ranks r + 1, r + 2, …, r (modulo N), each sum rounded to the buffer's format.
    ReduceScatter(Tensor),
    /// Copies the r-th part of rank r's buffer (N·P elements, any number format) to every other rank.
    AllGather(Tensor),
    /// Copies the root's buffer (any number format) over every other rank's.
    Broadcast(Tensor, usize),
    /// Completes when every rank has started it.
    Barrier,
}

impl Collective {
    /// Its name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AllReduce(_) => "all_reduce",
            Self::ReduceScatter(_) => "reduce_scatter",
            Self::AllGather(_) => "all_gather",
            Self::Broadcast(..) => "broadcast",
            Self::Barrier => "barrier",
        }
    }

    /// Its buffer.
    pub fn buffer(&self) -> Option<&Tensor> {
        match self {
            Self::AllReduce(buffer) | Self::ReduceScatter(buffer) | Self::AllGather(buffer) => Some(buffer),
            Self::Broadcast(buffer, _) => Some(buffer),
            Self::Barrier => None,
        }
    }

    /// Checks the buffer and the root for a group of `size` ranks.
    ///
    /// # Errors
    /// [`Error::Buffer`] or [`Error::NoSuchRank`].
    pub fn check(&self, size: usize) -> Result<()> {
        let Some(buffer) = self.buffer() else { return Ok(()) };
        let operation = self.name();
        let wrong = |reason: String| Err(Error::Buffer { operation, reason });
        if buffer.dims().len() != 1 || !buffer.is_contiguous() {
            return wrong(format!("a flat buffer is needed, not one of shape {:?}", buffer.dims()));
        }
        let sums = matches!(self, Self::AllReduce(_) | Self::ReduceScatter(_));
        if sums && !buffer.dtype().is_float() {
            return wrong(format!("numbers of type {} are not summed", buffer.dtype().as_str()));
        }
        let parts = matches!(self, Self::ReduceScatter(_) | Self::AllGather(_));
        let len = buffer.elem_count();
        if parts && !len.is_multiple_of(size) {
            return wrong(format!("{len} elements are not {size} parts of equal length"));
        }
        match self {
            Self::Broadcast(_, root) if *root >= size => Err(Error::NoSuchRank { operation, rank: *root, size }),
            _ => Ok(()),
        }
    }

    /// Payload bytes that `rank` of `size` ranks sends and receives if the collective runs as a ring.
    pub(crate) fn ring_traffic(&self, rank: usize, size: usize) -> (u64, u64) {
        let bytes = self.buffer().map_or(0, |buffer| buffer.elem_count() * buffer.dtype().size_in_bytes()) as u64;
        let parts = bytes * (size as u64 - 1) / size as u64;
        match self {
            Self::AllReduce(_) => (2 * parts, 2 * parts),
            Self::ReduceScatter(_) | Self::AllGather(_) => (parts, parts),
            // The last rank of the ring does not forward.
            Self::Broadcast(_, root) => {
                (if (rank + 1) % size == *root { 0 } else { bytes }, if rank == *root { 0 } else { bytes })
            }
            Self::Barrier => (0, 0),
        }
    }
}

/// A collective that has been started. It completes even if this handle is dropped.
#[must_use = "the buffer must not be used before `wait` has returned"]
pub struct Pending(Box<dyn FnOnce() -> Result<()> + Send>);

impl Pending {
    /// A handle whose [`Pending::wait`] calls `wait`.
    pub fn new(wait: impl FnOnce() -> Result<()> + Send + 'static) -> Self {
        Self(Box::new(wait))
    }

    /// The handle of a collective that has completed.
    pub fn done() -> Self {
        Self::new(|| Ok(()))
    }

    /// Waits until the buffer holds the result. On a GPU only the device's stream waits, not the host.
    ///
    /// # Errors
    /// A rank is lost or out of step; every waiting rank gets the same error.
    pub fn wait(self) -> Result<()> {
        (self.0)()
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}

/// Payload bytes that a rank has sent and received in collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Sent.
    pub sent: u64,
    /// Received.
    pub received: u64,
    /// Those of the sent bytes that went to a rank of another host.
    pub sent_between_hosts: u64,
    /// Those of the received bytes that came from a rank of another host.
    pub received_between_hosts: u64,
}

impl Traffic {
    /// What was moved after `before`, an earlier count of the same group.
    pub fn since(self, before: Self) -> Self {
        self.with(before, u64::saturating_sub)
    }

    /// The mean of `count` equal parts; everything for 0.
    pub fn mean_of(self, count: u64) -> Self {
        let count = count.max(1);
        let all = Self { sent: count, received: count, sent_between_hosts: count, received_between_hosts: count };
        self.with(all, |bytes, count| bytes / count)
    }

    pub(crate) fn plus(self, more: Self) -> Self {
        self.with(more, u64::saturating_add)
    }

    fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            sent: of(self.sent, other.sent),
            received: of(self.received, other.received),
            sent_between_hosts: of(self.sent_between_hosts, other.sent_between_hosts),
            received_between_hosts: of(self.received_between_hosts, other.received_between_hosts),
        }
    }
}

/// A fixed set of processes that run collectives.
///
/// All ranks must start the same collectives in the same order, with buffers of the same lengths and number
/// formats; they run in that order. A mismatch or a lost rank is an error on every rank.
pub trait ProcessGroup: Send + Sync {
    /// This process's rank, from 0 to `size() - 1`.
    fn rank(&self) -> usize;

    /// The world size, at least 1.
    fn size(&self) -> usize;

    /// Starts a collective and returns at once. Its buffer must not be used before [`Pending::wait`] has returned.
    ///
    /// # Errors
    /// The buffer does not fit the collective, or the group has already failed.
    fn start(&self, collective: Collective) -> Result<Pending>;

    /// Bytes that this rank has sent and received so far in this group; in the group of all ranks, those of its groups
    /// [by host](ProcessGroup::by_host) too.
    fn traffic(&self) -> Traffic;

    /// A group of the same ranks whose collectives overtake those of this one, for what passes wait for. On GPUs it has a communicator
    /// of its own, on a stream of higher priority; on CPUs its collectives are ordered with those of this group. All ranks have to
    /// call it.
    ///
    /// # Errors
    /// Another communicator cannot be made, or a rank is lost.
    fn with_priority(&self) -> Result<Arc<dyn ProcessGroup>>;

    /// This rank's groups within its host and between hosts; `None` if all ranks are on one host. All ranks have to call it.
    ///
    /// # Errors
    /// Hosts have unequal numbers of ranks, the ranks of a host do not follow each other, or a rank is lost.
    fn by_host(&self) -> Result<Option<HostGroups>>;

    /// Fails the group on all ranks with this reason, including every pending collective.
    fn abort(&self, reason: &str);

    /// Starts [`Collective::AllReduce`] and waits for it.
    ///
    /// # Errors
    /// As [`ProcessGroup::start`] and [`Pending::wait`].
    fn all_reduce(&self, buffer: &Tensor) -> Result<()> {
        self.start(Collective::AllReduce(buffer.clone()))?.wait()
    }

    /// Starts [`Collective::ReduceScatter`] and waits for it.
    ///
    /// # Errors
    /// As [`ProcessGroup::start`] and [`Pending::wait`].
    fn reduce_scatter(&self, buffer: &Tensor) -> Result<()> {
        self.start(Collective::ReduceScatter(buffer.clone()))?.wait()
    }

    /// Starts [`Collective::AllGather`] and waits for it.
    ///
    /// # Errors
    /// As [`ProcessGroup::start`] and [`Pending::wait`].
    fn all_gather(&self, buffer: &Tensor) -> Result<()> {
        self.start(Collective::AllGather(buffer.clone()))?.wait()
    }

    /// Starts [`Collective::Broadcast`] and waits for it.
    ///
    /// # Errors
    /// As [`ProcessGroup::start`] and [`Pending::wait`].
    fn broadcast(&self, buffer: &Tensor, root: usize) -> Result<()> {
        self.start(Collective::Broadcast(buffer.clone(), root))?.wait()
    }

    /// Starts [`Collective::Barrier`] and waits for it.
    ///
    /// # Errors
    /// As [`ProcessGroup::start`] and [`Pending::wait`].
    fn barrier(&self) -> Result<()> {
        self.start(Collective::Barrier)?.wait()
    }
}

/// The group of one process: collectives are validated and leave their buffers unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Single;

impl ProcessGroup for Single {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn start(&self, collective: Collective) -> Result<Pending> {
        collective.check(1)?;
        Ok(Pending::done())
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }

    fn with_priority(&self) -> Result<Arc<dyn ProcessGroup>> {
        Ok(Arc::new(Self))
    }

    fn by_host(&self) -> Result<Option<HostGroups>> {
        Ok(None)
    }

    fn abort(&self, _reason: &str) {}
}
