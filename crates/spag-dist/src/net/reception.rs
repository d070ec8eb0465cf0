//! A port that lets in who knows the token, and is not held up by anybody else.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::handshake::{self, Hello, Refused};
use super::{Token, Waker, poll_until, remaining};

/// How long a connection may take to prove itself.
const PROOF_TIME: Duration = Duration::from_secs(5);
/// Connections that may be at it at once; the oldest is closed when one more comes.
const MAX_UNPROVEN: usize = 64;
/// Visits that may wait to be looked at.
const MAX_WAITING: usize = 4096;

/// Somebody has connected.
#[derive(Debug)]
pub(crate) enum Visit {
    /// One that knows the token, and what it wants.
    Proven(Hello, TcpStream, SocketAddr),
    /// One that speaks the protocol, but knows another token or speaks another version: what it said, in words.
    Refused(Option<Hello>, SocketAddr, String),
}

/// A listening port with a thread that takes connections and lets each prove itself on a thread of its own.
#[derive(Debug)]
pub(crate) struct Reception {
    visits: Receiver<Visit>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Stop {
    wanted: AtomicBool,
    waker: Waker,
    /// Called at every visit.
    arrivals: Waker,
}

impl Reception {
    /// Opens the port of `listener` to those who know `token`.
    ///
    /// # Errors
    /// Where the system has no threads or sockets left.
    pub(crate) fn open(listener: TcpListener, token: Token) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let stop = Arc::new(Stop { wanted: AtomicBool::new(false), waker: Waker::new()?, arrivals: Waker::new()? });
        let (sender, visits) = mpsc::sync_channel(MAX_WAITING);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("reception".into())
            .spawn(move || take_connections(&listener, &token, &sender, &stopped))?;
        Ok(Self { visits, stop, thread: Some(thread) })
    }

    /// The next visit, or `None` when none comes before the deadline.
    pub(crate) fn next(&self, deadline: Instant) -> Option<Visit> {
        match self.visits.recv_timeout(remaining(deadline)) {
            Ok(visit) => Some(visit),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                // The thread is gone, which it never is by itself; do not make the caller spin.
                std::thread::sleep(remaining(deadline));
                None
            }
        }
    }
}

impl Reception {
    /// What to wait for instead, until the next visit; then ask for visits until there are no more.
    pub(crate) fn arrivals(&self) -> &Waker {
        &self.stop.arrivals
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        self.stop.wanted.store(true, Ordering::Release);
        self.stop.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It ends at once, and a panic in it has nothing more to say.
            let _ = thread.join();
        }
    }
}

/// A connection that has not proven itself yet.
struct Unproven {
    /// To close it early; nothing any more once it has proven itself.
    stream: Arc<Mutex<Option<TcpStream>>>,
    thread: JoinHandle<()>,
}

impl Unproven {
    fn close(&self) {
        if let Some(stream) = taken(&self.stream) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn taken(stream: &Mutex<Option<TcpStream>>) -> Option<TcpStream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn take_connections(listener: &TcpListener, token: &Token, visits: &SyncSender<Visit>, stop: &Arc<Stop>) {
    let mut unproven: Vec<Unproven> = Vec::new();
    while !stop.wanted.load(Ordering::Acquire) {
        unproven.retain(|one| !one.thread.is_finished());
        match listener.accept() {
            Ok((stream, from)) => {
                if unproven.len() >= MAX_UNPROVEN {
                    unproven.remove(0).close();
                }
                unproven.extend(prove(stream, from, token.clone(), visits.clone(), Arc::clone(stop)));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let far = Instant::now() + Duration::from_secs(3600);
                let _ = poll_until(&[(listener.as_fd(), PollFlags::IN), stop.waker.socket()], far);
            }
            // The other side gave up already, or there are too many open files: others may do better.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    for one in unproven {
        one.close();
        let _ = one.thread.join();
    }
}

/// Lets a connection prove itself on a thread of its own; one for which there is no thread is closed.
fn prove(
    mut stream: TcpStream,
    from: SocketAddr,
    token: Token,
    visits: SyncSender<Visit>,
    stop: Arc<Stop>,
) -> Option<Unproven> {
    let handle = Arc::new(Mutex::new(Some(stream.try_clone().ok()?)));
    let own_handle = Arc::clone(&handle);
    let thread = std::thread::Builder::new().name("handshake".into()).spawn(move || {
        let result = received(&mut stream, &token);
        // From here on nobody but the one who gets it closes it; if it was closed already, there is nothing to give.
        if taken(&own_handle).is_none() {
            return;
        }
        let visit = match result {
            Ok(hello) => Visit::Proven(hello, stream, from),
            Err(Refused::Token(hello)) => Visit::Refused(hello, from, "it knows another token".into()),
            Err(Refused::Protocol(version)) => Visit::Refused(
                None,
                from,
                format!("it speaks version {version} of the protocol, and this program {}", handshake::PROTOCOL),
            ),
            Err(Refused::Stranger(_)) => return,
        };
        // Full or closed: the connection is dropped, and whoever made it tries again.
        let _ = visits.try_send(visit);
        stop.arrivals.wake();
    });
    Some(Unproven { stream: handle, thread: thread.ok()? })
}

fn received(stream: &mut TcpStream, token: &Token) -> Result<Hello, Refused> {
    // Whether an accepted socket inherits this from its listener depends on the system.
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    let nonce = handshake::nonce().map_err(io::Error::other)?;
    handshake::receive(stream, token, nonce, Instant::now() + PROOF_TIME)
}
