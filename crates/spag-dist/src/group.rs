//! What the processes of a run do together, and the trait behind which the ways to do it look alike.

use candle_core::Tensor;

use crate::{Error, Result};

/// Something that all ranks of a group do together, on one flat buffer each.
///
/// A buffer is a tensor of one dimension, contiguous, and the same length on every rank. What is written goes into its
/// memory; other tensors that share it see that. Legend: N ranks, P elements of a part, N·P elements of a buffer whose
/// r-th part belongs to rank r.
#[derive(Clone, Debug)]
pub enum Collective {
    /// Replaces every rank's buffer by the element-wise sum over all ranks. f32, bf16 or f64.
    ///
    /// The sum of an element is taken in the order of [`Collective::ReduceScatter`] with parts of ⌈length / N⌉ elements:
    /// both give the same bits.
    AllReduce(Tensor),
    /// Sums the buffers (N·P elements; f32, bf16 or f64) and leaves the r-th part of the sum in its place on rank r. The
    /// other parts are of no use afterwards.
    ///
    /// Part r is summed in the order of ranks r + 1, r + 2, …, r (modulo N), each sum rounded to the buffer's format.
    ReduceScatter(Tensor),
    /// Puts the r-th part of rank r's buffer (N·P elements, any number format) there on every rank.
    AllGather(Tensor),
    /// Copies the root's buffer (any number format) over every other rank's.
    Broadcast(Tensor, usize),
    /// Is done once every rank has started it.
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

    /// Rejects what no group of `size` ranks can do, before anything is sent.
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
}

/// A collective that has been started.
///
/// Dropped without being waited for, it goes on all the same.
#[must_use = "the buffer is not to be touched before `wait` has returned"]
pub struct Pending(Box<dyn FnOnce() -> Result<()> + Send>);

impl Pending {
    /// One whose end `wait` waits for.
    pub fn new(wait: impl FnOnce() -> Result<()> + Send + 'static) -> Self {
        Self(Box::new(wait))
    }

    /// One that is done.
    pub fn done() -> Self {
        Self::new(|| Ok(()))
    }

    /// Waits for the end. On a CPU the buffer holds the result then; on a GPU, for everything that is handed to the
    /// buffer's device from then on.
    ///
    /// # Errors
    /// A rank that is gone, silent, or does something else; every rank that waits gets it.
    pub fn wait(self) -> Result<()> {
        (self.0)()
    }
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}

/// Bytes that a rank has sent to others, and received from them, in collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Sent.
    pub sent: u64,
    /// Received.
    pub received: u64,
}

/// A fixed set of processes that work together.
///
/// Every rank starts the same collectives in the same order with buffers of the same lengths and number formats;
/// they are done in that order. Anything else, and a rank that ends or falls silent, is an error on every rank.
pub trait ProcessGroup: Send + Sync {
    /// This process's number, from 0 to `size() - 1`.
    fn rank(&self) -> usize;

    /// The number of processes, at least 1.
    fn size(&self) -> usize;

    /// Starts a collective and returns at once. Its buffer is not to be touched before [`Pending::wait`] has returned.
    ///
    /// # Errors
    /// A buffer that does not fit the collective, or a group that has failed before.
    fn start(&self, collective: Collective) -> Result<Pending>;

    /// Bytes moved so far.
    fn traffic(&self) -> Traffic;

    /// Tells the other ranks that this one ends and why, so that they end too and say so. What is under way fails.
    fn abort(&self, reason: &str);

    /// [`Collective::AllReduce`], waited for.
    ///
    /// # Errors
    /// As [`ProcessGroup::start`] and [`Pending::wait`].
    fn all_reduce(&self, buffer: &Tensor) -> Result<()> {
        self.start(Collective::AllReduce(buffer.clone()))?.wait()
    }

    /// [`Collective::ReduceScatter`], waited for.
    ///
    /// # Errors
    /// As [`ProcessGroup::start`] and [`Pending::wait`].
    fn reduce_scatter(&self, buffer: &Tensor) -> Result<()> {
        self.start(Collective::ReduceScatter(buffer.clone()))?.wait()
    }

    /// [`Collective::AllGather`], waited for.
    ///
    /// # Errors
    /// As [`ProcessGroup::start`] and [`Pending::wait`].
    fn all_gather(&self, buffer: &Tensor) -> Result<()> {
        self.start(Collective::AllGather(buffer.clone()))?.wait()
    }

    /// [`Collective::Broadcast`], waited for.
    ///
    /// # Errors
    /// As [`ProcessGroup::start`] and [`Pending::wait`].
    fn broadcast(&self, buffer: &Tensor, root: usize) -> Result<()> {
        self.start(Collective::Broadcast(buffer.clone(), root))?.wait()
    }

    /// [`Collective::Barrier`], waited for.
    ///
    /// # Errors
    /// As [`ProcessGroup::start`] and [`Pending::wait`].
    fn barrier(&self) -> Result<()> {
        self.start(Collective::Barrier)?.wait()
    }
}
