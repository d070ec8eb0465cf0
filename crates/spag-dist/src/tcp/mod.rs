//! A process group of CPU ranks in a ring of TCP connections.
//!
//! Every rank is connected to the next and the previous rank. Buffers are sent in place and in slices, so that sending,
//! receiving and adding overlap. A tensor's storage is
//! locked for one slice at a time, so other views of it can be used concurrently.
//!
//! On several hosts there are a ring within each host and rings between hosts, too ([`HostGroups`](crate::HostGroups)). One thread
//! per rank runs the collectives of all its rings in their start order.
//!
//! A control connection from every rank to rank 0 carries heartbeats, the number of collectives started by each rank,
//! and failures. A rank that loses its neighbour reports it to rank 0 and waits for its decision, so that all ranks
//! name the rank that failed first.
//!
//! Parts and summation orders are those of [`Collective`](crate::Collective).

#[cfg(target_endian = "big")]
compile_error!("buffers are sent as they are in memory, which must be little-endian");

mod add;
mod collectives;
mod control;
mod group;
mod header;
mod join;
mod memory;
mod ring;
mod schedule;
mod state;

pub use group::TcpGroup;
#[cfg(any(feature = "cuda", test))]
pub(crate) use group::thread_ended;
pub(crate) use memory::with_bytes;
pub(crate) use schedule::RingPosition;
#[cfg(any(feature = "cuda", test))]
pub(crate) use state::GroupState;
