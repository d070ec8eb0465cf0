//! How two processes prove to each other that they know the run's token, without sending it.
//!
//! The one that connects says what it wants and a random number; the one that listens answers with a random number of
//! its own and a proof over both; the first one proves itself likewise. A proof is HMAC-SHA256 with the token as its
//! key, over a word for the side, everything that the connecting side said, and the listening side's number. All
//! messages have a fixed length, so a stranger can make nobody read or wait for more. Connections are not encrypted:
//! the token keeps strangers out, not eavesdroppers on the network.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::remaining;
use super::token::{PROOF_LEN, Token, random_bytes};

/// Changes whenever what is said between ranks changes.
pub(crate) const PROTOCOL: u32 = 1;
const MAGIC: &[u8; 8] = b"SPAGdist";
const NONCE_LEN: usize = 32;
const HELLO_LEN: usize = 8 + 4 + 1 + 4 + SESSION_LEN + NONCE_LEN;
const CHALLENGE_LEN: usize = 8 + 4 + NONCE_LEN + PROOF_LEN;
const SESSION_LEN: usize = 16;

/// Tells one group of ranks from another that has the same token.
pub(crate) type Session = [u8; SESSION_LEN];

/// Where no session has been made yet.
pub(crate) const NO_SESSION: Session = [0; SESSION_LEN];

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// From a rank to rank 0, to join the group.
    Group,
    /// From a rank to the next one in the ring.
    Ring,
    /// From a rank to rank 0's work queue.
    Queue,
}

impl Service {
    fn code(self) -> u8 {
        match self {
            Self::Group => 1,
            Self::Ring => 2,
            Self::Queue => 3,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Group, Self::Ring, Self::Queue].into_iter().find(|service| service.code() == code)
    }
}

/// What a process says first when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// What it wants.
    pub(crate) service: Service,
    /// Its rank.
    pub(crate) rank: u32,
    /// Its group.
    pub(crate) session: Session,
}

/// Why a connection came to nothing.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Nobody that speaks this protocol, or not in time.
    Stranger(io::Error),
    /// One that speaks another version of it.
    Protocol(u32),
    /// One that does not know the token; what it said it was.
    Token(Option<Hello>),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Stranger(error)
    }
}

/// The connecting side: done once the other side has proven itself and has our proof.
pub(crate) fn introduce(
    stream: &mut TcpStream,
    token: &Token,
    hello: Hello,
    nonce: [u8; NONCE_LEN],
    deadline: Instant,
) -> Result<(), Refused> {
    let mut said = [0; HELLO_LEN];
    let mut fields = Fields(&mut said);
    fields.put(MAGIC);
    fields.put(&PROTOCOL.to_le_bytes());
    fields.put(&[hello.service.code()]);
    fields.put(&hello.rank.to_le_bytes());
    fields.put(&hello.session);
    fields.put(&nonce);
    write_by(stream, &said, deadline)?;

    let mut answer = [0; CHALLENGE_LEN];
    read_by(stream, &mut answer, deadline)?;
    let (magic, protocol, rest) = split_head(&answer)?;
    check_head(magic, protocol)?;
    let (theirs, proof) = rest.split_at(NONCE_LEN);
    if !token.accepts(&[b"listening", &said, theirs], proof) {
        return Err(Refused::Token(None));
    }
    write_by(stream, &token.prove(&[b"connecting", &said, theirs]), deadline)?;
    Ok(())
}

/// The listening side: what a process that has proven itself wants.
pub(crate) fn receive(
    stream: &mut TcpStream,
    token: &Token,
    nonce: [u8; NONCE_LEN],
    deadline: Instant,
) -> Result<Hello, Refused> {
    let mut said = [0; HELLO_LEN];
    read_by(stream, &mut said, deadline)?;
    let (magic, protocol, rest) = split_head(&said)?;
    if magic != MAGIC {
        return Err(not_spoken());
    }
    // Another version gets an answer that it can read as far as the version.
    let mut answer = [0; CHALLENGE_LEN];
    let mut fields = Fields(&mut answer);
    fields.put(MAGIC);
    fields.put(&PROTOCOL.to_le_bytes());
    fields.put(&nonce);
    fields.put(&token.prove(&[b"listening", &said, &nonce]));
    write_by(stream, &answer, deadline)?;
    check_head(magic, protocol)?;

    let Some((code, rest)) = rest.split_first() else { return Err(not_spoken()) };
    let Some((rank, rest)) = rest.split_first_chunk::<4>() else { return Err(not_spoken()) };
    let Some((session, _)) = rest.split_first_chunk::<SESSION_LEN>() else { return Err(not_spoken()) };
    let Some(service) = Service::from_code(*code) else { return Err(not_spoken()) };
    let hello = Hello { service, rank: u32::from_le_bytes(*rank), session: *session };

    let mut proof = [0; PROOF_LEN];
    // One that knows another token sees that from our proof, and closes.
    match read_by(stream, &mut proof, deadline) {
        Ok(()) if token.accepts(&[b"connecting", &said, &nonce], &proof) => Ok(hello),
        Ok(()) => Err(Refused::Token(Some(hello))),
        Err(error) if is_closed(&error) => Err(Refused::Token(Some(hello))),
        Err(error) => Err(error.into()),
    }
}

/// A random number for one connection.
pub(crate) fn nonce() -> crate::Result<[u8; NONCE_LEN]> {
    random_bytes()
}

/// A new session.
pub(crate) fn session() -> crate::Result<Session> {
    random_bytes()
}

/// Fills a message from its beginning.
struct Fields<'a>(&'a mut [u8]);

impl Fields<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (head, tail) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.0 = tail;
    }
}

fn split_head(message: &[u8]) -> Result<(&[u8], u32, &[u8]), Refused> {
    let Some((magic, rest)) = message.split_at_checked(MAGIC.len()) else { return Err(not_spoken()) };
    let Some((protocol, rest)) = rest.split_first_chunk::<4>() else { return Err(not_spoken()) };
    Ok((magic, u32::from_le_bytes(*protocol), rest))
}

fn check_head(magic: &[u8], protocol: u32) -> Result<(), Refused> {
    match (magic == MAGIC, protocol) {
        (true, PROTOCOL) => Ok(()),
        (true, other) => Err(Refused::Protocol(other)),
        (false, _) => Err(not_spoken()),
    }
}

fn not_spoken() -> Refused {
    Refused::Stranger(io::Error::new(ErrorKind::InvalidData, "it does not speak this program's protocol"))
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// Reads exactly so many bytes; one that sends a byte now and then gains no time.
fn read_by(stream: &mut TcpStream, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
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

fn write_by(stream: &mut TcpStream, bytes: &[u8], deadline: Instant) -> io::Result<()> {
    let left = remaining(deadline);
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    stream.set_write_timeout(Some(left))?;
    // A few dozen bytes: they always fit into an empty connection's buffer.
    stream.write_all(bytes)
}
