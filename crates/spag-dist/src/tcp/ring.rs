//! Moves a buffer along the ring as a schedule says: one thread, two sockets, neither of which ever blocks.

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
use super::schedule::{Arrival, Schedule};
use super::state::Shared;
use crate::net::poll_until;
use crate::{Error, Traffic};

/// Bytes that are moved by one call: few enough to stay in a core's cache between being received and added.
const SLICE: usize = 256 << 10;

/// Why a collective came to nothing.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The group has failed elsewhere.
    Failed,
    /// The next rank takes nothing any more.
    Next(String),
    /// The previous rank gives nothing any more.
    Previous(String),
    /// The previous rank does something else.
    OutOfStep(Header),
    /// Nothing has moved for too long.
    Stalled,
    /// The buffer cannot be used.
    Buffer(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Buffer(error)
    }
}

/// The two connections of a rank to its neighbours.
#[derive(Debug)]
pub(crate) struct Ring {
    next: TcpStream,
    previous: TcpStream,
    /// What has been received and not been added yet; numbers of 8 bytes, so that any format is aligned.
    scratch: Vec<u64>,
}

/// Keeps what is under way between two ranks of one machine small enough for a core's cache. The system's own choice
/// grows to megabytes, which have left the cache when they are read: that cost a quarter of the processor time of a sum.
/// Between machines it is left alone: there, much must be under way for a line to be full.
fn keep_in_cache(stream: &TcpStream) {
    if stream.peer_addr().is_ok_and(|peer| peer.ip().is_loopback()) {
        // Only speed is at stake.
        let _ = sockopt::set_socket_send_buffer_size(stream, SLICE / 2);
        let _ = sockopt::set_socket_recv_buffer_size(stream, SLICE);
    }
}

/// A collective as the ring sees it.
pub(crate) struct Task<'a> {
    pub(crate) header: Header,
    pub(crate) schedule: &'a Schedule,
    pub(crate) buffer: &'a Tensor,
    pub(crate) add: Option<Add>,
    /// Nothing may move for so long.
    pub(crate) patience: Duration,
}

/// How far one direction has come.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// Bytes of the header.
    header: usize,
    step: usize,
    /// Bytes of the step.
    offset: usize,
}

/// One collective under way.
struct Run<'a> {
    task: Task<'a>,
    sent: Progress,
    received: Progress,
    their_header: [u8; HEADER_LEN],
    /// Bytes at the beginning of the scratch memory that are part of a number whose other part has not come yet.
    waiting: usize,
}

impl Ring {
    /// # Errors
    /// What the system says of the sockets.
    pub(crate) fn new(next: TcpStream, previous: TcpStream) -> io::Result<Self> {
        for stream in [&next, &previous] {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            keep_in_cache(stream);
        }
        Ok(Self { next, previous, scratch: vec![0; SLICE / size_of::<u64>()] })
    }

    /// Does one collective; says how many bytes of the buffer it has moved.
    pub(crate) fn run(&mut self, task: Task<'_>, shared: &Shared) -> Result<Traffic, Stop> {
        let mut run = Run {
            task,
            sent: Progress::default(),
            received: Progress::default(),
            their_header: [0; HEADER_LEN],
            waiting: 0,
        };
        run.skip_empty();
        let mut traffic = Traffic::default();
        let mut moved_at = Instant::now();
        while !run.is_done() {
            if shared.has_failed() {
                return Err(Stop::Failed);
            }
            let sent = run.send(&mut self.next)?;
            let received = run.receive(&mut self.previous, &mut self.scratch)?;
            traffic.sent += sent.payload as u64;
            traffic.received += received.payload as u64;
            if sent.any || received.any {
                moved_at = Instant::now();
                continue;
            }
            let deadline = moved_at + run.task.patience;
            if Instant::now() >= deadline {
                return Err(Stop::Stalled);
            }
            let mut sockets = vec![shared.conductor_waker().socket()];
            if run.sendable() > 0 {
                sockets.push((self.next.as_fd(), PollFlags::OUT));
            }
            if !run.has_received() {
                sockets.push((self.previous.as_fd(), PollFlags::IN));
            }
            poll_until(&sockets, deadline).map_err(|error| Stop::Next(error.to_string()))?;
            shared.conductor_waker().clear();
        }
        Ok(traffic)
    }
}

/// What one attempt to send or receive has moved.
#[derive(Clone, Copy, Default)]
struct Moved {
    any: bool,
    /// Bytes without the header's.
    payload: usize,
}

impl Run<'_> {
    fn is_done(&self) -> bool {
        self.sent.header == HEADER_LEN && self.sent.step == self.task.schedule.len() && self.has_received()
    }

    fn has_received(&self) -> bool {
        self.received.header == HEADER_LEN && self.received.step == self.task.schedule.len()
    }

    /// Goes on to the next step in either direction where one has nothing left to do.
    fn skip_empty(&mut self) {
        let schedule = self.task.schedule;
        while schedule.get(self.sent.step).is_some_and(|step| step.send.len() == self.sent.offset) {
            (self.sent.step, self.sent.offset) = (self.sent.step + 1, 0);
        }
        while schedule.get(self.received.step).is_some_and(|step| step.receive.len() == self.received.offset) {
            (self.received.step, self.received.offset) = (self.received.step + 1, 0);
        }
    }

    /// Payload bytes of the present step that may be sent now: what the step before it has received, less what is sent.
    fn payload(&self) -> usize {
        let Some(step) = self.task.schedule.get(self.sent.step) else { return 0 };
        let there = match self.sent.step {
            0 => step.send.len(),
            now if self.received.step >= now => step.send.len(),
            now if self.received.step + 1 == now => self.received.offset,
            _ => 0,
        };
        there.min(step.send.len()).saturating_sub(self.sent.offset)
    }

    fn sendable(&self) -> usize {
        HEADER_LEN - self.sent.header + self.payload()
    }

    fn send(&mut self, next: &mut TcpStream) -> Result<Moved, Stop> {
        if self.sendable() == 0 {
            return Ok(Moved::default());
        }
        let header = self.task.header.to_bytes();
        let header = &header[self.sent.header..];
        let payload = self.payload().min(SLICE);
        let start = self.task.schedule.get(self.sent.step).map_or(0, |step| step.send.start) + self.sent.offset;
        let result = match (header.is_empty(), payload) {
            (_, 0) => next.write(header),
            (true, _) => with_bytes(self.task.buffer, |bytes| next.write(&bytes[start..][..payload]))?,
            // Together, so that a short message is one packet.
            (false, _) => with_bytes(self.task.buffer, |bytes| {
                next.write_vectored(&[IoSlice::new(header), IoSlice::new(&bytes[start..][..payload])])
            })?,
        };
        let written = match result {
            Ok(0) => return Err(Stop::Next("its connection takes no more data".into())),
            Ok(written) => written,
            Err(error) if is_pause(&error) => return Ok(Moved::default()),
            Err(error) => return Err(Stop::Next(error.to_string())),
        };
        let of_header = written.min(header.len());
        self.sent.header += of_header;
        self.sent.offset += written - of_header;
        self.skip_empty();
        Ok(Moved { any: true, payload: written - of_header })
    }

    fn receive(&mut self, previous: &mut TcpStream, scratch: &mut [u64]) -> Result<Moved, Stop> {
        if self.received.header < HEADER_LEN {
            return self.receive_header(previous);
        }
        let Some(step) = self.task.schedule.get(self.received.step) else { return Ok(Moved::default()) };
        let start = step.receive.start + self.received.offset;
        let left = step.receive.len() - self.received.offset;
        let add = match (step.arrival, self.task.add) {
            (Arrival::Add, Some(add)) => add,
            _ => {
                let result =
                    with_bytes(self.task.buffer, |bytes| previous.read(&mut bytes[start..][..left.min(SLICE)]))?;
                let Some(read) = heard(result)? else { return Ok(Moved::default()) };
                self.received.offset += read;
                self.skip_empty();
                return Ok(Moved { any: true, payload: read });
            }
        };
        let scratch: &mut [u8] = bytemuck::cast_slice_mut(scratch);
        let wanted = left.min(scratch.len());
        let Some(read) = heard(previous.read(&mut scratch[self.waiting..wanted]))? else {
            return Ok(Moved::default());
        };
        let there = self.waiting + read;
        let whole = there - there % self.task.buffer.dtype().size_in_bytes();
        with_bytes(self.task.buffer, |bytes| add(&mut bytes[start..][..whole], &scratch[..whole]))?;
        scratch.copy_within(whole..there, 0);
        self.waiting = there - whole;
        self.received.offset += whole;
        self.skip_empty();
        Ok(Moved { any: true, payload: read })
    }

    fn receive_header(&mut self, previous: &mut TcpStream) -> Result<Moved, Stop> {
        let Some(read) = heard(previous.read(&mut self.their_header[self.received.header..]))? else {
            return Ok(Moved::default());
        };
        self.received.header += read;
        if self.received.header == HEADER_LEN {
            let theirs = Header::from_bytes(&self.their_header);
            if theirs != self.task.header {
                return Err(Stop::OutOfStep(theirs));
            }
        }
        Ok(Moved { any: true, payload: 0 })
    }
}

/// How many bytes have come; `None` when none are there yet.
fn heard(result: io::Result<usize>) -> Result<Option<usize>, Stop> {
    match result {
        Ok(0) => Err(Stop::Previous("its connection has closed".into())),
        Ok(read) => Ok(Some(read)),
        Err(error) if is_pause(&error) => Ok(None),
        Err(error) => Err(Stop::Previous(error.to_string())),
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
