//! Mutual authentication with the run's token, which is never sent.
//!
//! 1. The client sends its hello and a nonce.
//! 2. The server answers with its own nonce and a proof.
//! 3. The client sends a proof.
//!
//! A proof is HMAC-SHA256, keyed with the token, over the name of the side, the client's message and the server's nonce.
//! All messages have a fixed length, so a client cannot make the server read or wait for more. Connections are not
//! encrypted: the token keeps other processes out, but does not prevent eavesdropping.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::remaining;
use super::token::{PROOF_LEN, Token, random_bytes};

/// Incremented with every change of the messages between ranks.
pub(crate) const PROTOCOL: u32 = 4;
const MAGIC: &[u8] = b"SPAGdist";
const NONCE_LEN: usize = 32;
const HELLO_LEN: usize = 8 + 4 + 1 + 4 + SESSION_LEN + NONCE_LEN;
const CHALLENGE_LEN: usize = 8 + 4 + NONCE_LEN + PROOF_LEN;
const SESSION_LEN: usize = 16;

/// Distinguishes process groups with the same token.
pub(crate) type Session = [u8; SESSION_LEN];

/// For connections before a session exists.
pub(crate) const NO_SESSION: Session = [0; SESSION_LEN];

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// To rank 0, to join the group.
    Group = 1,
    /// To the next rank of the ring.
    Ring = 2,
    /// To rank 0's work queue.
    Queue = 3,
    /// To the next rank of the ring within a host.
    RingWithinHost = 4,
    /// To the next rank of the ring between hosts.
    RingBetweenHosts = 5,
}

impl Service {
    const ALL: [Self; 5] = [Self::Group, Self::Ring, Self::Queue, Self::RingWithinHost, Self::RingBetweenHosts];
}

/// The purpose and identity of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) service: Service,
    pub(crate) rank: u32,
    pub(crate) session: Session,
}

/// Why a handshake failed.
#[derive(Debug)]
pub(crate) enum HandshakeError {
    /// Another protocol, a broken connection or a timeout.
    Io(io::Error),
    /// Another version of the protocol.
    Protocol(u32),
    /// Another token; the client's hello, on the server.
    Token(Option<Hello>),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The client's side; returns when the server is authenticated and has the client's proof.
pub(crate) fn send(
    stream: &TcpStream,
    token: &Token,
    hello: Hello,
    nonce: [u8; NONCE_LEN],
    deadline: Instant,
) -> Result<(), HandshakeError> {
    let rank = hello.rank.to_le_bytes();
    let said = [MAGIC, &PROTOCOL.to_le_bytes()[..], &[hello.service as u8], &rank, &hello.session, &nonce].concat();
    write_by(stream, &said, deadline)?;

    let mut answer = [0; CHALLENGE_LEN];
    read_by(stream, &mut answer, deadline)?;
    let (magic, protocol, rest) = split_head(&answer)?;
    check_head(magic, protocol)?;
    let (theirs, proof) = rest.split_at(NONCE_LEN);
    if !token.accepts(&[b"listening", &said, theirs], proof) {
        return Err(HandshakeError::Token(None));
    }
    write_by(stream, &token.prove(&[b"connecting", &said, theirs]), deadline)?;
    Ok(())
}

/// The server's side; returns the authenticated client's hello.
pub(crate) fn receive(
    stream: &TcpStream,
    token: &Token,
    nonce: [u8; NONCE_LEN],
    deadline: Instant,
) -> Result<Hello, HandshakeError> {
    let mut said = [0; HELLO_LEN];
    read_by(stream, &mut said, deadline)?;
    let (magic, protocol, rest) = split_head(&said)?;
    if magic != MAGIC {
        return Err(wrong_protocol());
    }
    // A client with another version can parse this answer up to the version.
    let proof = token.prove(&[b"listening", &said, &nonce]);
    let answer = [MAGIC, &PROTOCOL.to_le_bytes()[..], &nonce, &proof].concat();
    write_by(stream, &answer, deadline)?;
    check_head(magic, protocol)?;

    let Some((code, rest)) = rest.split_first() else { return Err(wrong_protocol()) };
    let Some((rank, rest)) = rest.split_first_chunk::<4>() else { return Err(wrong_protocol()) };
    let Some((session, _)) = rest.split_first_chunk::<SESSION_LEN>() else { return Err(wrong_protocol()) };
    let Some(service) = Service::ALL.into_iter().find(|service| *service as u8 == *code) else {
        return Err(wrong_protocol());
    };
    let hello = Hello { service, rank: u32::from_le_bytes(*rank), session: *session };

    let mut proof = [0; PROOF_LEN];
    // A client with another token detects it from our proof and closes the connection.
    match read_by(stream, &mut proof, deadline) {
        Ok(()) if token.accepts(&[b"connecting", &said, &nonce], &proof) => Ok(hello),
        Ok(()) => Err(HandshakeError::Token(Some(hello))),
        Err(error) if is_closed(&error) => Err(HandshakeError::Token(Some(hello))),
        Err(error) => Err(error.into()),
    }
}

/// A nonce for one connection.
pub(crate) fn nonce() -> crate::Result<[u8; NONCE_LEN]> {
    random_bytes()
}

/// A new session.
pub(crate) fn new_session() -> crate::Result<Session> {
    random_bytes()
}

fn split_head(message: &[u8]) -> Result<(&[u8], u32, &[u8]), HandshakeError> {
    let Some((magic, rest)) = message.split_at_checked(MAGIC.len()) else { return Err(wrong_protocol()) };
    let Some((protocol, rest)) = rest.split_first_chunk::<4>() else { return Err(wrong_protocol()) };
    Ok((magic, u32::from_le_bytes(*protocol), rest))
}

fn check_head(magic: &[u8], protocol: u32) -> Result<(), HandshakeError> {
    match protocol {
        _ if magic != MAGIC => Err(wrong_protocol()),
        PROTOCOL => Ok(()),
        other => Err(HandshakeError::Protocol(other)),
    }
}

fn wrong_protocol() -> HandshakeError {
    HandshakeError::Io(io::Error::new(ErrorKind::InvalidData, "it does not speak this program's protocol"))
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// Fills `bytes`. The deadline covers all of them, however slowly they arrive.
fn read_by(mut stream: &TcpStream, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = remaining(deadline);
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn write_by(mut stream: &TcpStream, bytes: &[u8], deadline: Instant) -> io::Result<()> {
    let left = remaining(deadline);
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    stream.set_write_timeout(Some(left))?;
    // The few bytes of a message always fit into an empty send buffer.
    stream.write_all(bytes)
}
