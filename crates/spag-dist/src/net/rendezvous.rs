//! Connects the ranks to rank 0 and to each other.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use super::handshake::{self, HandshakeError, PROTOCOL};
use super::token::given_token;
use super::token_file::TokenFile;
use super::{Acceptor, Endpoint, Hello, JoinOptions, Token, remaining};
use crate::{Error, LaunchEnv, Result};

/// The pause between attempts while a token or a host name is missing.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// The pause after a failed connection.
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit of one connection attempt including its handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Rank 0's listening port. Closed when dropped.
#[derive(Debug)]
pub(crate) struct RendezvousListener {
    pub(crate) acceptor: Acceptor,
    pub(crate) token: Token,
    pub(crate) address: SocketAddr,
    /// Holds the token for the other ranks of this machine; removed with the listener at the latest.
    file: Option<TokenFile>,
}

impl RendezvousListener {
    /// # Errors
    /// The port cannot be bound, or the token file cannot be written.
    pub(crate) fn bind(env: &LaunchEnv, options: &JoinOptions, endpoint: &Endpoint) -> Result<Self> {
        let given = given_token(env, options)?;
        let listener = endpoint.listen()?;
        let address = listener.local_addr().map_err(Error::system("the listening port"))?;
        // Written after the port is bound, so that no other run of this machine writes the same file.
        let (token, file) = match given {
            Some(token) => (token, None),
            None => {
                let token = Token::random()?;
                let file = TokenFile::write(address.port(), &token)?;
                (token, Some(file))
            }
        };
        let acceptor = Acceptor::start(listener, token.clone())?;
        Ok(Self { acceptor, token, address, file })
    }

    /// Removes the token file once all ranks have joined, so that killing rank 0 does not leave it behind.
    pub(crate) fn remove_token_file(&mut self) {
        self.file = None;
    }
}

/// Connects to rank 0, retrying until the deadline. Also returns the token.
pub(crate) fn connect_to_rank0(
    env: &LaunchEnv,
    options: &JoinOptions,
    hello: Hello,
    deadline: Instant,
) -> Result<(TcpStream, Token)> {
    let endpoint = Endpoint::new(env, options)?;
    let given = given_token(env, options)?;
    let mut reason = "rank 0 has not written its token yet".to_owned();
    while !remaining(deadline).is_zero() {
        let token = match &given {
            Some(token) => Some(token.clone()),
            None => TokenFile::read(endpoint.port)?,
        };
        let Some(token) = token else {
            std::thread::sleep(RETRY_INTERVAL.min(remaining(deadline)) / 4);
            continue;
        };
        match endpoint.addresses() {
            Ok(addresses) => match connect(&addresses, &token, hello, deadline)? {
                Connection::Ready(stream) => return Ok((stream, token)),
                Connection::Failed(error) => {
                    reason = error;
                    continue;
                }
                Connection::TokenMismatch if given.is_some() => return Err(Error::TokenMismatch { rank: env.rank }),
                // The file is from an earlier run, and rank 0 will replace it.
                Connection::TokenMismatch => reason = "rank 0 has another token than the token file".to_owned(),
            },
            // Host names may become resolvable only after the processes start.
            Err(error) => reason = error.to_string(),
        }
        std::thread::sleep(RETRY_INTERVAL.min(remaining(deadline)));
    }
    let seconds = options.join_timeout.as_secs();
    Err(Error::Unreachable { rank: env.rank, address: endpoint.to_string(), seconds, reason })
}

/// The outcome of [`connect`].
pub(crate) enum Connection {
    /// Connected, and both sides have authenticated themselves.
    Ready(TcpStream),
    /// The error; another attempt may succeed.
    Failed(String),
    /// The other side has another token.
    TokenMismatch,
}

/// Connects to the first address that answers, with one attempt each.
///
/// # Errors
/// [`Error::Disagree`] if the other side has another version of the protocol.
pub(crate) fn connect(addresses: &[SocketAddr], token: &Token, hello: Hello, deadline: Instant) -> Result<Connection> {
    let mut reason = "it has no address".to_owned();
    for address in addresses {
        let timeout = remaining(deadline).min(CONNECT_TIMEOUT);
        if timeout.is_zero() {
            break;
        }
        match connect_once(address, token, hello, timeout) {
            Ok(stream) => return Ok(Connection::Ready(stream)),
            Err(HandshakeError::Token(_)) => return Ok(Connection::TokenMismatch),
            Err(HandshakeError::Protocol(version)) => {
                return Err(Error::Disagree {
                    rank: hello.rank as usize,
                    what: "the version of the protocol".into(),
                    theirs: PROTOCOL.to_string(),
                    first: version.to_string(),
                });
            }
            Err(HandshakeError::Io(error)) => reason = format!("{address}: {error}"),
        }
    }
    std::thread::sleep(CONNECT_INTERVAL.min(remaining(deadline)));
    Ok(Connection::Failed(reason))
}

fn connect_once(
    address: &SocketAddr,
    token: &Token,
    hello: Hello,
    timeout: Duration,
) -> Result<TcpStream, HandshakeError> {
    let deadline = Instant::now() + timeout;
    let stream = TcpStream::connect_timeout(address, timeout)?;
    // Linux connects a socket to itself if its ephemeral port is the one that it connects to.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
    }
    stream.set_nodelay(true)?;
    let nonce = handshake::nonce().map_err(io::Error::other)?;
    handshake::send(&stream, token, hello, nonce, deadline)?;
    Ok(stream)
}
