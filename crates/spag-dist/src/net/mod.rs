//! Connections between the processes of a run: who may connect, and messages with limits on size and time.

mod address;
mod channel;
mod dial;
mod door;
mod handshake;
mod options;
mod reception;
mod refusal;
mod token;
mod token_file;
mod wait;

pub(crate) use address::{Meeting, meeting};
pub(crate) use channel::Channel;
pub(crate) use dial::{Dialled, dial};
pub(crate) use door::{Door, reach};
pub(crate) use handshake::{Hello, NO_SESSION, Service, Session, session as new_session};
pub use options::{
    COLLECTIVE_TIMEOUT, HEARTBEAT, JOIN_TIMEOUT, JoinOptions, PORT_VARIABLE, PortChoice, SILENCE, START_VARIABLE,
    TOKEN_VARIABLE,
};
pub(crate) use reception::{Reception, Visit};
pub(crate) use refusal::Refusal;
pub use token::Token;
pub(crate) use token::{TokenSource, token_source};
pub(crate) use token_file::TokenFile;
pub(crate) use wait::{Waker, poll_until, remaining};
