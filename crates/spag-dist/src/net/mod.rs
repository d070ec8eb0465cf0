//! Connections between the ranks of a run: authentication, and messages with limits on size and time.

mod acceptor;
mod channel;
mod endpoint;
mod handshake;
mod options;
mod rendezvous;
mod token;
mod token_file;
mod wait;

pub(crate) use acceptor::{Acceptor, Incoming};
pub(crate) use channel::Channel;
pub(crate) use endpoint::Endpoint;
pub(crate) use handshake::{Hello, NO_SESSION, Service, Session, new_session};
pub use options::{JoinOptions, PortChoice, RESTART_COUNT_VARIABLE};
pub(crate) use rendezvous::{Connection, RendezvousListener, connect, connect_to_rank0};
pub use token::Token;
pub(crate) use wait::{Waker, poll_until, remaining};
