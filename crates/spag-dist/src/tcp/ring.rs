//! Moves a buffer along the ring by a schedule, with one thread and two non-blocking sockets.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use candle_core::Tensor;
use rustix::event::PollFlags;
use rustix::net::sockopt;

use super::add::Add;
use super::header::{HEADER_LEN, Header};
use super::memory::with_bytes;
use super::schedule::{OnReceive, Schedule};
use super::state::GroupState;
use crate::Error;
use crate::hosts::Members;
use crate::net::poll_until;

/// Maximum bytes per call, small enough to stay in a core's cache between receiving and adding.
const SLICE: usize = 256 << 10;

/// Why a collective failed on this rank.
#[derive(Debug)]
pub(crate) enum RingError {
    /// The group has already failed.
    GroupFailed,
    /// Sending to the next rank failed.
    Next(String),
    /// Receiving from the previous rank failed.
    Previous(String),
    /// The previous rank runs another collective.
    OutOfStep(Header),
    /// No progress within the timeout.
    TimedOut,
    /// The buffer cannot be accessed.
    Buffer(Error),
}

impl From<Error> for RingError {
    fn from(error: Error) -> Self {
        Self::Buffer(error)
    }
}

/// The two connections of a rank to its neighbours.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) members: Members,
    next: TcpStream,
    previous: TcpStream,
    /// Received bytes that are not added yet; `u64` aligns them for every format.
    scratch: Vec<u64>,
}

/// Limits the socket buffers between two ranks of one machine, so that data stays in a core's cache. The system's default
/// grows to megabytes, which cost a quarter of the processor time of a sum. Connections between machines need large
/// buffers for bandwidth and are unchanged.
fn limit_local_buffers(stream: &TcpStream) {
    if stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()) {
        // Affects speed only.
        let _ = sockopt::set_socket_send_buffer_size(stream, SLICE / 2);
        let _ = sockopt::set_socket_recv_buffer_size(stream, SLICE);
    }
}

/// One collective.
pub(crate) struct RingOp<'a> {
    pub(crate) header: Header,
    pub(crate) schedule: &'a Schedule,
    pub(crate) buffer: &'a Tensor,
    pub(crate) add: Option<Add>,
    /// Maximum time without progress.
    pub(crate) timeout: Duration,
}

/// The progress of one direction.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// Completed bytes of the header.
    header: usize,
    step: usize,
    /// Completed bytes of the step.
    offset: usize,
}

/// A collective in progress.
struct Transfer<'a> {
    op: RingOp<'a>,
    sent: Progress,
    received: Progress,
    their_header: [u8; HEADER_LEN],
    /// Bytes of an incomplete element at the start of the scratch memory.
    partial: usize,
}

impl Ring {
    /// # Errors
    /// A system error.
    pub(crate) fn new(members: Members, next: TcpStream, previous: TcpStream) -> io::Result<Self> {
        for stream in [&next, &previous] {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            limit_local_buffers(stream);
        }
        Ok(Self { members, next, previous, scratch: vec![0; SLICE / size_of::<u64>()] })
    }

    /// Runs one collective.
    pub(crate) fn run(&mut self, op: RingOp<'_>, state: &GroupState) -> Result<(), RingError> {
        let mut transfer = Transfer {
            op,
            sent: Progress::default(),
            received: Progress::default(),
            their_header: [0; HEADER_LEN],
            partial: 0,
        };
        transfer.skip_completed();
        let mut moved_at = Instant::now();
        while !transfer.is_done() {
            if state.has_failed() {
                return Err(RingError::GroupFailed);
            }
            let sent = transfer.send(&mut self.next)?;
            let received = transfer.receive(&mut self.previous, &mut self.scratch)?;
            if sent || received {
                moved_at = Instant::now();
                continue;
            }
            let deadline = moved_at + transfer.op.timeout;
            if Instant::now() >= deadline {
                return Err(RingError::TimedOut);
            }
            let mut sockets = vec![state.ring_waker.socket()];
            if transfer.sendable() > 0 {
                sockets.push((self.next.as_fd(), PollFlags::OUT));
            }
            if !transfer.has_received() {
                sockets.push((self.previous.as_fd(), PollFlags::IN));
            }
            poll_until(&sockets, deadline).map_err(|error| RingError::Next(error.to_string()))?;
            state.ring_waker.clear();
        }
        Ok(())
    }
}

impl Transfer<'_> {
    fn is_done(&self) -> bool {
        self.sent.header == HEADER_LEN && self.sent.step == self.op.schedule.len() && self.has_received()
    }

    fn has_received(&self) -> bool {
        self.received.header == HEADER_LEN && self.received.step == self.op.schedule.len()
    }

    /// Advances each direction past its completed steps.
    fn skip_completed(&mut self) {
        let schedule = self.op.schedule;
        while schedule.get(self.sent.step).is_some_and(|step| step.send.len() == self.sent.offset) {
            (self.sent.step, self.sent.offset) = (self.sent.step + 1, 0);
        }
        while schedule.get(self.received.step).is_some_and(|step| step.receive.len() == self.received.offset) {
            (self.received.step, self.received.offset) = (self.received.step + 1, 0);
        }
    }

    /// Payload bytes of the current step that can be sent now: those received by the previous step.
    fn payload(&self) -> usize {
        let Some(step) = self.op.schedule.get(self.sent.step) else { return 0 };
        let available = match self.sent.step {
            0 => step.send.len(),
            now if self.received.step >= now => step.send.len(),
            now if self.received.step + 1 == now => self.received.offset,
            _ => 0,
        };
        available.min(step.send.len()).saturating_sub(self.sent.offset)
    }

    fn sendable(&self) -> usize {
        HEADER_LEN - self.sent.header + self.payload()
    }

    /// Sends what can be sent; returns whether anything was.
    fn send(&mut self, next: &mut TcpStream) -> Result<bool, RingError> {
        if self.sendable() == 0 {
            return Ok(false);
        }
        let header = self.op.header.to_bytes();
        let header = &header[self.sent.header..];
        let payload = self.payload().min(SLICE);
        let start = self.op.schedule.get(self.sent.step).map_or(0, |step| step.send.start) + self.sent.offset;
        let result = match (header.is_empty(), payload) {
            (_, 0) => next.write(header),
            (true, _) => with_bytes(self.op.buffer, |bytes| next.write(&bytes[start..][..payload]))?,
            // In one call, so that a short message is one packet.
            (false, _) => with_bytes(self.op.buffer, |bytes| {
                next.write_vectored(&[IoSlice::new(header), IoSlice::new(&bytes[start..][..payload])])
            })?,
        };
        let written = match result {
            Ok(0) => return Err(RingError::Next("its connection accepts no more data".into())),
            Ok(written) => written,
            Err(error) if would_block(&error) => return Ok(false),
            Err(error) => return Err(RingError::Next(error.to_string())),
        };
        let of_header = written.min(header.len());
        self.sent.header += of_header;
        self.sent.offset += written - of_header;
        self.skip_completed();
        Ok(true)
    }

    /// Receives what has arrived; returns whether anything has.
    fn receive(&mut self, previous: &mut TcpStream, scratch: &mut [u64]) -> Result<bool, RingError> {
        if self.received.header < HEADER_LEN {
            return self.receive_header(previous);
        }
        let Some(step) = self.op.schedule.get(self.received.step) else { return Ok(false) };
        let start = step.receive.start + self.received.offset;
        let left = step.receive.len() - self.received.offset;
        let (OnReceive::Add, Some(add)) = (step.on_receive, self.op.add) else {
            let result = with_bytes(self.op.buffer, |bytes| previous.read(&mut bytes[start..][..left.min(SLICE)]))?;
            let Some(read) = received(result)? else { return Ok(false) };
            self.received.offset += read;
            self.skip_completed();
            return Ok(true);
        };
        let scratch: &mut [u8] = bytemuck::cast_slice_mut(scratch);
        let wanted = left.min(scratch.len());
        let Some(read) = received(previous.read(&mut scratch[self.partial..wanted]))? else { return Ok(false) };
        let available = self.partial + read;
        let whole = available - available % self.op.buffer.dtype().size_in_bytes();
        with_bytes(self.op.buffer, |bytes| add(&mut bytes[start..][..whole], &scratch[..whole]))?;
        scratch.copy_within(whole..available, 0);
        self.partial = available - whole;
        self.received.offset += whole;
        self.skip_completed();
        Ok(true)
    }

    fn receive_header(&mut self, previous: &mut TcpStream) -> Result<bool, RingError> {
        let Some(read) = received(previous.read(&mut self.their_header[self.received.header..]))? else {
            return Ok(false);
        };
        self.received.header += read;
        if self.received.header == HEADER_LEN {
            let theirs = Header::from_bytes(&self.their_header);
            if theirs != self.op.header {
                return Err(RingError::OutOfStep(theirs));
            }
        }
        Ok(true)
    }
}

/// The number of bytes received; `None` if none are available yet.
fn received(result: io::Result<usize>) -> Result<Option<usize>, RingError> {
    match result {
        Ok(0) => Err(RingError::Previous("its connection has closed".into())),
        Ok(read) => Ok(Some(read)),
        Err(error) if would_block(&error) => Ok(None),
        Err(error) => Err(RingError::Previous(error.to_string())),
    }
}

fn would_block(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
