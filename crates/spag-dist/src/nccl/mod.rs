//! A process group of NVIDIA GPUs over NCCL, one GPU per process. Feature `cuda`.
//!
//! A [`TcpGroup`](crate::TcpGroup) inside does everything except moving buffers between GPUs: rendezvous, exchange of
//! NCCL's unique ID, heartbeats, and collectives on CPU buffers.
//!
//! Collectives run on their own CUDA stream. Starting one makes this stream wait for the compute stream, and
//! [`Pending::wait`](crate::Pending::wait) makes the compute stream wait for the collective; the host waits for neither.
//! Groups [by host](crate::ProcessGroup::by_host) and [with priority](crate::ProcessGroup::with_priority) have communicators and streams
//! of their own, whose unique IDs are sent over TCP, too.
//!
//! If the group fails, the communicator is aborted, so that its kernels do not spin forever. Pending collectives then
//! have no result, and later ones fail with the same error.
//!
//! NCCL chooses its own summation order: bits may differ from those of [`TcpGroup`](crate::TcpGroup), between NCCL
//! versions and between world sizes. All ranks must have the same NCCL version, which is checked.

mod communicator;
mod group;
mod watchdog;

pub use group::NcclGroup;
