//! A group of CPU ranks in a ring of TCP connections.
//!
//! Every rank has one connection to the next rank and one from the previous one, over which buffers travel in place and
//! in slices: while one slice is sent, another is received and a third one added. One thread a group does the
//! collectives in the order in which they were started. A buffer's storage is locked for a slice at a time only, so
//! buffers may be views of one storage that is worked on elsewhere.
//!
//! A second connection, of every rank to rank 0, carries what is not data: heartbeats, how many collectives each rank
//! has started, who has ended and why. A rank that sees its neighbour gone reports it to rank 0 and waits for its
//! verdict, so that all ranks name the one where it began.
//!
//! Bytes go over the wire as they lie in memory, little-endian; parts and orders of summation are those that
//! [`Collective`](crate::Collective) states.

#[cfg(target_endian = "big")]
compile_error!("buffers are sent as they lie in memory, which is taken to be little-endian");

mod add;
mod conductor;
mod control;
mod fault;
mod group;
mod header;
mod join;
mod memory;
mod ring;
mod schedule;
mod state;

#[cfg(feature = "cuda")]
pub(crate) use fault::Fault;
pub use group::TcpGroup;
#[cfg(feature = "cuda")]
pub(crate) use schedule::Place;
#[cfg(feature = "cuda")]
pub(crate) use state::Shared;
