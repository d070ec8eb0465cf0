//! A group of NVIDIA GPUs, one a process, over NCCL. Feature `cuda`.
//!
//! A [`TcpGroup`](crate::TcpGroup) inside does everything but move the buffers on GPUs: the ranks find each other
//! through it, NCCL's id travels over it, its heartbeats tell who is gone, and it takes the buffers on the CPU.
//!
//! Collectives run on a stream of their own. One that is started waits, on the GPU, for what its device was given
//! before; [`Pending::wait`](crate::Pending::wait) makes the device wait for its end. The host waits for neither. When
//! the group fails, the communicator is aborted, so that no kernel of it spins for ever; what was under way then holds
//! no result, and everything that is started afterwards fails with the reason.
//!
//! The order in which NCCL sums is its own: the bits may differ from those of [`TcpGroup`](crate::TcpGroup), and from
//! one version of NCCL or one number of ranks to another. All ranks must have the same version, which is checked.

mod communicator;
mod flight;
mod group;
mod memory;
mod watch;

pub use group::NcclGroup;
