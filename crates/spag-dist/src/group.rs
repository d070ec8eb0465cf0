//! The collectives that data-parallel and sharded training are made of.

use crate::Result;

/// A fixed set of processes that take part in collectives together.
///
/// Every rank calls the same collectives in the same order with buffers of the same lengths.
/// The methods take `&mut self` because two collectives of one group must not overlap: the order
/// in which two threads would enter them could differ from rank to rank.
///
/// Legend: N ranks, P elements of one rank's part, N·P elements of a whole buffer.
pub trait ProcessGroup: Send {
    /// This process's number, from 0 to `size() - 1`.
    fn rank(&self) -> usize;

    /// The number of processes, at least 1.
    fn size(&self) -> usize;

    /// Replaces every rank's buffer by the element-wise sum over all ranks.
    fn all_reduce(&mut self, buffer: &mut [f32]) -> Result<()>;

    /// Copies `root`'s buffer over every other rank's.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`](crate::Error::NoSuchRank) when `root` is not a rank of the group.
    fn broadcast(&mut self, buffer: &mut [f32], root: usize) -> Result<()>;

    /// Puts every rank's `part` (P elements), in the order of ranks, into `whole` (N·P elements) on every rank.
    ///
    /// # Errors
    /// [`Error::BufferLength`](crate::Error::BufferLength) when `whole` is not N times as long as `part`.
    fn all_gather(&mut self, part: &[f32], whole: &mut [f32]) -> Result<()>;

    /// Sums `whole` (N·P elements) over all ranks, and leaves the r-th part of the sum (P elements) in rank r's `part`.
    ///
    /// # Errors
    /// [`Error::BufferLength`](crate::Error::BufferLength) when `whole` is not N times as long as `part`.
    fn reduce_scatter(&mut self, whole: &[f32], part: &mut [f32]) -> Result<()>;

    /// Returns once every rank has called it.
    fn barrier(&mut self) -> Result<()>;
}
