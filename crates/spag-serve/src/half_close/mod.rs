//! Clients that have ended what they send and wait for the answer.
//!
//! Such a client (`shutdown` of its sending side) and one that has left (`close`) look the same until something is sent to them: the
//! system of one that has left refuses it. So a client whose request is complete is probed now and then: before the answer with
//! the interim response `100 Continue`, which HTTP lets clients ignore, and within a stream of events with an empty comment.

mod bodies;
mod exchange;
mod stream;

pub(crate) use exchange::Exchange;
pub(crate) use stream::ClientStream;
