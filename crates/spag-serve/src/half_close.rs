//! Clients that have ended what they send and wait for the answer.
//!
//! Such a client (`shutdown` of its sending side) and one that has left (`close`) look the same until something is sent to them: the
//! system of one that has left refuses it. So a client whose request is complete is probed now and then: before the answer with
//! the interim response `100 Continue`, which HTTP lets clients ignore, and within a stream of events with an empty comment.

use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response, Version, header};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// What is sent before an answer.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// What is sent within a stream of events.
const COMMENT: &[u8] = b":\n\n";
/// Time before the first probe, so that most answers have none before them. It doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Time for the system of a client that has left to refuse a probe.
const REFUSAL: Duration = Duration::from_millis(20);
/// Time between two probes, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How far a connection's request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is none: the connection ends with what the client sends.
    Receiving,
    /// Its body is read, from a client of this version. All of it may have arrived before any of it is read.
    Reading(Version),
    /// Nothing of the answer has been sent to a client of this version.
    Working(Version),
    /// The answer is sent.
    Sending,
}

struct State {
    phase: Phase,
    /// Whether a stream of events should send a comment.
    is_probe_due: bool,
    /// Whether the client has ended what it sends.
    has_ended: bool,
    /// Whether the body is read up to there and has no end.
    is_torn: bool,
    /// Who waits for the end of the answer.
    waiting: Option<Waker>,
    /// Who waits for more of the body.
    reading: Option<Waker>,
}

/// The request of a connection, as its stream and its bodies know it.
#[derive(Clone)]
pub(crate) struct Exchange(Arc<Mutex<State>>);

impl Exchange {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            phase: Phase::Receiving,
            is_probe_due: false,
            has_ended: false,
            is_torn: false,
            waiting: None,
            reading: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, phase: Phase) {
        self.state().phase = phase;
        self.wake();
    }

    fn wake(&self) {
        if let Some(waiting) = self.state().waiting.take() {
            waiting.wake();
        }
    }

    /// Follows a request.
    pub(crate) fn request(&self, request: Request<Incoming>) -> Request<RequestBody> {
        self.enter(Phase::Reading(request.version()));
        request.map(|body| {
            let body = RequestBody { body, exchange: self.clone() };
            if body.is_end_stream() {
                body.note_end();
            }
            body
        })
    }

    /// Follows the response to it.
    pub(crate) fn response(&self, response: Response<Body>) -> Response<ResponseBody> {
        self.enter(Phase::Sending);
        let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let has_events = kind.is_some_and(|kind| kind.starts_with(b"text/event-stream"));
        response.map(|body| ResponseBody { body, has_events, exchange: self.clone() })
    }
}

/// The body of a request, which notes its end.
pub(crate) struct RequestBody {
    body: Incoming,
    exchange: Exchange,
}

impl RequestBody {
    fn note_end(&self) {
        let phase = self.exchange.state().phase;
        if let Phase::Reading(version) = phase {
            self.exchange.enter(Phase::Working(version));
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.note_end();
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let had_ended = self.exchange.state().has_ended;
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            let mut state = self.exchange.state();
            state.reading = Some(cx.waker().clone());
            // What arrived before the end would have been here.
            state.is_torn = had_ended;
            let is_new = state.has_ended;
            drop(state);
            if had_ended {
                self.exchange.wake();
            } else if is_new {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        };
        // The end of chunks is known only once it is there.
        if frame.is_none() || self.body.is_end_stream() {
            self.note_end();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response, which notes its end. A stream of events has comments in it where a probe is due.
pub(crate) struct ResponseBody {
    body: Body,
    has_events: bool,
    exchange: Exchange,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let is_due = std::mem::take(&mut self.exchange.state().is_probe_due);
        match polled {
            // Between two pieces, each of which is whole events.
            Poll::Pending if is_due && self.has_events => {
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))))
            }
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.exchange.enter(Phase::Receiving);
    }
}

/// A connection that ends while a request is worked on only if the client has left.
pub(crate) struct ClientStream {
    stream: TcpStream,
    exchange: Exchange,
    /// Once the client has ended what it sends.
    probes: Option<Probes>,
    /// Whether the system has not taken all that was written.
    is_blocked: bool,
}

/// When the next probe is due.
struct Probes {
    next: Pin<Box<Sleep>>,
    pause: Duration,
    /// Whether one was sent and may be refused soon.
    is_sent: bool,
}

impl ClientStream {
    pub(crate) fn new(stream: TcpStream, exchange: Exchange) -> Self {
        Self { stream, exchange, probes: None, is_blocked: false }
    }

    /// Waits until the client has left, or its request was answered.
    ///
    /// # Errors
    /// The client has left.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(error) = self.stream.take_error()? {
                return Poll::Ready(Err(error));
            }
            let mut state = self.exchange.state();
            state.has_ended = true;
            // Read as ended, the connection is closed, with what the system has not taken.
            let is_over = match state.phase {
                Phase::Receiving => !self.is_blocked,
                Phase::Reading(_) => state.is_torn,
                Phase::Working(_) | Phase::Sending => false,
            };
            if is_over {
                return Poll::Ready(Ok(()));
            }
            state.waiting = Some(cx.waker().clone());
            let (phase, reading) = (state.phase, state.reading.take());
            drop(state);
            if let Some(reading) = reading {
                reading.wake();
            }
            let first = || Probes { next: Box::pin(sleep(FIRST_PAUSE)), pause: FIRST_PAUSE, is_sent: false };
            let probes = self.probes.get_or_insert_with(first);
            ready!(probes.next.as_mut().poll(cx));
            probes.is_sent = !probes.is_sent;
            let pause = if probes.is_sent { REFUSAL } else { probes.pause };
            probes.next.as_mut().reset(Instant::now() + pause);
            if probes.is_sent {
                probes.pause = (2 * probes.pause).min(LONGEST_PAUSE);
                self.probe(phase)?;
            }
        }
    }

    fn probe(&self, phase: Phase) -> io::Result<()> {
        match phase {
            // An older client knows no interim responses, and the end of another response may be on its way.
            Phase::Working(version) if version >= Version::HTTP_11 && !self.is_blocked => {
                match self.stream.try_write(INTERIM) {
                    Ok(written) if written < INTERIM.len() => Err(ErrorKind::WriteZero.into()),
                    Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
                    Ok(_) | Err(_) => Ok(()),
                }
            }
            Phase::Sending => {
                self.exchange.state().is_probe_due = true;
                Ok(())
            }
            Phase::Working(_) | Phase::Reading(_) | Phase::Receiving => Ok(()),
        }
    }

    /// Notes whether the system took all of `length` bytes.
    fn note_written(&mut self, written: Poll<io::Result<usize>>, length: usize) -> Poll<io::Result<usize>> {
        self.is_blocked = !matches!(&written, Poll::Ready(Ok(taken)) if *taken == length);
        if !self.is_blocked && self.probes.is_some() {
            self.exchange.wake();
        }
        written
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.probes.is_none() {
            let before = buffer.filled().len();
            ready!(pin!(&mut self.stream).poll_read(cx, buffer))?;
            if buffer.filled().len() > before || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        self.poll_ended(cx)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = pin!(&mut self.stream).poll_write(cx, bytes);
        self.note_written(written, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = pin!(&mut self.stream).poll_write_vectored(cx, slices);
        self.note_written(written, slices.iter().map(|slice| slice.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_shutdown(cx)
    }
}
