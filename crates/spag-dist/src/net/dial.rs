//! Connecting to a port where somebody who knows the token will listen, sooner or later.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::handshake::{self, Hello, PROTOCOL, Refused};
use super::{Token, remaining};
use crate::{Error, Result};

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// The pause after an attempt that failed.
const PAUSE: Duration = Duration::from_millis(50);

/// One attempt's end.
pub(crate) enum Dialled {
    /// Connected, and both sides have proven themselves.
    Connected(TcpStream),
    /// Not this time; why.
    NotYet(String),
    /// There is one, but it knows another token.
    OtherToken,
}

/// Connects to the first of the addresses that answers, with one attempt each.
///
/// # Errors
/// [`Error::Disagree`] where the other side speaks another version of the protocol.
pub(crate) fn dial(addresses: &[SocketAddr], token: &Token, hello: Hello, deadline: Instant) -> Result<Dialled> {
    let mut reason = "it has no address".to_owned();
    for address in addresses {
        let attempt = remaining(deadline).min(ATTEMPT);
        if attempt.is_zero() {
            break;
        }
        match connect(address, token, hello, attempt) {
            Ok(stream) => return Ok(Dialled::Connected(stream)),
            Err(Refused::Token(_)) => return Ok(Dialled::OtherToken),
            Err(Refused::Protocol(version)) => {
                return Err(Error::Disagree {
                    rank: hello.rank as usize,
                    what: "the version of the protocol".into(),
                    theirs: PROTOCOL.to_string(),
                    first: version.to_string(),
                });
            }
            Err(Refused::Stranger(error)) => reason = format!("{address}: {error}"),
        }
    }
    std::thread::sleep(PAUSE.min(remaining(deadline)));
    Ok(Dialled::NotYet(reason))
}

fn connect(address: &SocketAddr, token: &Token, hello: Hello, attempt: Duration) -> Result<TcpStream, Refused> {
    let deadline = Instant::now() + attempt;
    let mut stream = TcpStream::connect_timeout(address, attempt)?;
    // A port of this machine that nobody listens on can connect to itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
    }
    stream.set_nodelay(true)?;
    let nonce = handshake::nonce().map_err(io::Error::other)?;
    handshake::introduce(&mut stream, token, hello, nonce, deadline)?;
    Ok(stream)
}
