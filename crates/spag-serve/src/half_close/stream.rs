//! The stream of a connection, on which clients are probed.

use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::Version;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::exchange::{Exchange, Phase};

/// What is sent before an answer.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Time before the first probe, so that most answers have none before them. It doubles with each.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Time for the system of a client that has left to refuse a probe.
const REFUSAL: Duration = Duration::from_millis(20);
/// Time between two probes, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

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
