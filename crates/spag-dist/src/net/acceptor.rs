//! Accepts and authenticates connections, so that slow or unauthenticated ones do not delay others.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::handshake::{self, HandshakeError, Hello};
use super::{Token, Waker, poll_until, remaining, thread};
use crate::{Error, Result};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum concurrent handshakes; one more closes the oldest.
const MAX_HANDSHAKES: usize = 64;
/// Maximum connections that wait for [`Acceptor::next`].
const MAX_WAITING: usize = 4096;

/// A connection after its handshake.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The other side has the token.
    Accepted(Hello, TcpStream, SocketAddr),
    /// The other side has another token or protocol version; the reason as text.
    Rejected(Option<Hello>, SocketAddr, String),
}

/// A listening port with a thread that accepts connections, each authenticated on a thread of its own.
#[derive(Debug)]
pub(crate) struct Acceptor {
    connections: Receiver<Incoming>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// Wakes the accepting thread.
    waker: Waker,
    /// Woken at every new connection.
    arrivals: Waker,
}

impl Acceptor {
    /// Accepts connections to `listener` from ranks with this token.
    ///
    /// # Errors
    /// The system cannot provide threads or sockets.
    pub(crate) fn start(listener: TcpListener, token: Token) -> Result<Self> {
        let system = Error::system("a listening port");
        listener.set_nonblocking(true).map_err(&system)?;
        let waker = || Waker::new().map_err(&system);
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), waker: waker()?, arrivals: waker()? });
        let (sender, connections) = mpsc::sync_channel(MAX_WAITING);
        let state = Arc::clone(&shared);
        let thread = thread("acceptor", move || accept_all(&listener, &token, &sender, &state))?;
        Ok(Self { connections, shared, thread: Some(thread) })
    }

    /// The next connection, or `None` if none arrives before the deadline.
    pub(crate) fn next(&self, deadline: Instant) -> Option<Incoming> {
        match self.connections.recv_timeout(remaining(deadline)) {
            Ok(incoming) => Some(incoming),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                // The thread has panicked. Without the pause the caller would spin.
                std::thread::sleep(remaining(deadline));
                None
            }
        }
    }

    /// Signals new connections to a thread that polls.
    pub(crate) fn arrivals(&self) -> &Waker {
        &self.shared.arrivals
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept_all(listener: &TcpListener, token: &Token, connections: &SyncSender<Incoming>, shared: &Arc<Shared>) {
    let mut handshakes: Vec<Weak<TcpStream>> = Vec::new();
    while !shared.stop.load(Ordering::Acquire) {
        handshakes.retain(|stream| stream.strong_count() > 0);
        match listener.accept() {
            Ok((stream, from)) => {
                if handshakes.len() >= MAX_HANDSHAKES {
                    close(&handshakes.remove(0));
                }
                let stream = Arc::new(stream);
                handshakes.push(Arc::downgrade(&stream));
                let (token, connections, shared) = (token.clone(), connections.clone(), Arc::clone(shared));
                // Closes the connection if no thread can be started.
                let _ = thread("handshake", move || authenticate(stream, from, &token, &connections, &shared));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let far = Instant::now() + Duration::from_secs(3600);
                let _ = poll_until(&[(listener.as_fd(), PollFlags::IN), shared.waker.socket()], far);
            }
            // The other side has closed already, or too many files are open.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    handshakes.iter().for_each(close);
}

/// Closes a connection during its handshake, which then fails.
fn close(stream: &Weak<TcpStream>) {
    if let Some(stream) = stream.upgrade() {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn authenticate(
    stream: Arc<TcpStream>,
    from: SocketAddr,
    token: &Token,
    connections: &SyncSender<Incoming>,
    shared: &Shared,
) {
    let result = receive(&stream, token);
    // From here on, the accepting thread cannot close the connection; `None` if it is about to.
    let Some(stream) = Arc::into_inner(stream) else { return };
    let incoming = match result {
        Ok(hello) => Incoming::Accepted(hello, stream, from),
        Err(HandshakeError::Token(hello)) => Incoming::Rejected(hello, from, "it has another token".into()),
        Err(HandshakeError::Protocol(version)) => {
            let own = handshake::PROTOCOL;
            let reason = format!("it speaks version {version} of the protocol, and this program version {own}");
            Incoming::Rejected(None, from, reason)
        }
        Err(HandshakeError::Io(_)) => return,
    };
    // If the queue is full, the connection is dropped, and the other side retries.
    let _ = connections.try_send(incoming);
    shared.arrivals.wake();
}

fn receive(stream: &TcpStream, token: &Token) -> Result<Hello, HandshakeError> {
    // Whether accepted sockets inherit this from the listener depends on the system.
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let nonce = handshake::nonce().map_err(io::Error::other)?;
    handshake::receive(stream, token, nonce, Instant::now() + HANDSHAKE_TIMEOUT)
}
