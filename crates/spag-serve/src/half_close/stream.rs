//! The stream of a connection, which probes half-closed clients.

use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::Version;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::exchange::{Exchange, Phase};

/// The probe sent before a response.
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// Time before the first probe, long enough that most responses need none. It doubles with each probe.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Time for a disconnected client's system to reject a probe.
const REFUSAL: Duration = Duration::from_millis(20);
/// Maximum time between two probes.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A connection that, while a request is processed, ends only if the client has disconnected.
pub(crate) struct ClientStream {
    stream: TcpStream,
    exchange: Exchange,
    /// Set once the client has closed its sending side.
    probes: Option<Probes>,
    /// Whether part of the written data was not accepted by the system.
    is_blocked: bool,
}

/// When the next probe is due.
struct Probes {
    next: Pin<Box<Sleep>>,
    pause: Duration,
    /// Whether a probe was sent and may be rejected soon.
    is_sent: bool,
}

impl ClientStream {
    pub(crate) fn new(stream: TcpStream, exchange: Exchange) -> Self {
        Self { stream, exchange, probes: None, is_blocked: false }
    }

    /// Waits until the client has disconnected, or its request was answered.
    ///
    /// # Errors
    /// The client has disconnected.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(error) = self.stream.take_error()? {
                return Poll::Ready(Err(error));
            }
            let mut state = self.exchange.state();
            state.has_ended = true;
            // Reporting the end closes the connection and drops unsent data.
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
            // HTTP/1.0 has no interim responses, and the end of another response may still be unsent.
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

    /// Records whether the system accepted all of `length` bytes.
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
