//! Supports clients that close their sending side and wait for the response.
//!
//! Such a client (`shutdown` of its sending side) and one that has disconnected (`close`) look the same until something is sent to
//! them: the system of a disconnected one rejects it. So a client with a complete request is probed periodically: before the
//! response with the interim response `100 Continue`, which HTTP lets clients ignore, and within an event stream with an empty
//! comment.

mod bodies;
mod exchange;
mod stream;

pub(crate) use exchange::Exchange;
pub(crate) use stream::ClientStream;
