//! Accepts and authenticates connections, so that slow or unauthenticated ones do not delay the others.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::handshake::{self, HandshakeError, Hello};
use super::{Token, Waker, poll_until, remaining};

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Concurrent handshakes; one more closes the oldest.
const MAX_HANDSHAKES: usize = 64;
/// Connections that wait for [`Acceptor::next`].
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
    /// A system without free threads or sockets.
    pub(crate) fn start(listener: TcpListener, token: Token) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), waker: Waker::new()?, arrivals: Waker::new()? });
        let (sender, connections) = mpsc::sync_channel(MAX_WAITING);
        let state = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("acceptor".into())
            .spawn(move || accept_all(&listener, &token, &sender, &state))?;
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

/// A connection during its handshake.
struct Handshake {
    /// To close it early; `None` after the handshake.
    stream: Arc<Mutex<Option<TcpStream>>>,
    thread: JoinHandle<()>,
}

impl Handshake {
    fn close(&self) {
        if let Some(stream) = take(&self.stream) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn take(stream: &Mutex<Option<TcpStream>>) -> Option<TcpStream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn accept_all(listener: &TcpListener, token: &Token, connections: &SyncSender<Incoming>, shared: &Arc<Shared>) {
    let mut handshakes: Vec<Handshake> = Vec::new();
    while !shared.stop.load(Ordering::Acquire) {
        handshakes.retain(|one| !one.thread.is_finished());
        match listener.accept() {
            Ok((stream, from)) => {
                if handshakes.len() >= MAX_HANDSHAKES {
                    handshakes.remove(0).close();
                }
                let started = spawn_handshake(stream, from, token.clone(), connections.clone(), Arc::clone(shared));
                handshakes.extend(started);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let far = Instant::now() + Duration::from_secs(3600);
                let _ = poll_until(&[(listener.as_fd(), PollFlags::IN), shared.waker.socket()], far);
            }
            // The other side has closed already, or too many files are open.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    for one in handshakes {
        one.close();
        let _ = one.thread.join();
    }
}

/// Authenticates a connection on a new thread. Closes it if no thread can be started.
fn spawn_handshake(
    mut stream: TcpStream,
    from: SocketAddr,
    token: Token,
    connections: SyncSender<Incoming>,
    shared: Arc<Shared>,
) -> Option<Handshake> {
    let handle = Arc::new(Mutex::new(Some(stream.try_clone().ok()?)));
    let own_handle = Arc::clone(&handle);
    let thread = std::thread::Builder::new().name("handshake".into()).spawn(move || {
        let result = receive(&mut stream, &token);
        // The accepting thread cannot close the connection from here on; `None` if it already has.
        if take(&own_handle).is_none() {
            return;
        }
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
    });
    Some(Handshake { stream: handle, thread: thread.ok()? })
}

fn receive(stream: &mut TcpStream, token: &Token) -> Result<Hello, HandshakeError> {
    // Whether an accepted socket inherits this from its listener depends on the system.
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let nonce = handshake::nonce().map_err(io::Error::other)?;
    handshake::receive(stream, token, nonce, Instant::now() + HANDSHAKE_TIMEOUT)
}
