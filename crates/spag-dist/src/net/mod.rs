//! Connections between the ranks of a run: authentication, and messages with size and time limits.

mod acceptor;
mod channel;
mod endpoint;
mod handshake;
mod joining;
mod options;
mod peers;
mod rendezvous;
mod token;
mod token_file;
mod wait;

pub(crate) use acceptor::{Acceptor, Incoming};
pub(crate) use channel::Channel;
pub(crate) use endpoint::Endpoint;
pub(crate) use handshake::{Hello, NO_SESSION, Service, Session, new_session};
pub(crate) use joining::{Applicant, Membership, Welcome};
pub(crate) use options::{
    COLLECTIVE_TIMEOUT_VARIABLE, HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_VARIABLE, JOIN_TIMEOUT_VARIABLE, TIMEOUT,
};
pub use options::{JoinOptions, PortChoice, RESTART_COUNT_VARIABLE};
pub(crate) use peers::{PeerEvent, Peers};
pub(crate) use rendezvous::{Connection, RendezvousListener, connect, connect_to_rank0};
pub use token::Token;
pub(crate) use wait::{Waker, poll_until, remaining};

use crate::{Error, Result};

/// Starts a thread of a group or a queue.
///
/// # Errors
/// The system cannot start another thread.
pub(crate) fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.spawn(work).map_err(Error::system("a thread that talks to other ranks"))
}
