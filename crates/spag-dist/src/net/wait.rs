//! poll(2) with a deadline, and a way to interrupt it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

/// The time left until `deadline`; zero after it.
pub(crate) fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// Waits until one of the sockets is ready or broken, or the deadline has passed.
///
/// # Errors
/// Errors of poll(2), except interruption by a signal.
pub(crate) fn poll_until(sockets: &[(BorrowedFd<'_>, PollFlags)], deadline: Instant) -> io::Result<()> {
    let mut polled: Vec<PollFd<'_>> = sockets.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
    let left = remaining(deadline);
    let timeout = Timespec { tv_sec: left.as_secs().min(1 << 30) as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Wakes a thread that waits for this waker's socket in [`poll_until`].
#[derive(Debug)]
pub(crate) struct Waker {
    reader: UnixStream,
    writer: UnixStream,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self { reader, writer })
    }

    /// Wakes the thread, now or at its next wait.
    pub(crate) fn wake(&self) {
        // Fails only if the buffer is full of earlier calls.
        let _ = (&self.writer).write(&[1]);
    }

    /// Discards the calls so far.
    pub(crate) fn clear(&self) {
        let mut calls = [0; 64];
        while matches!((&self.reader).read(&mut calls), Ok(n) if n > 0) {}
    }

    /// The socket and the events for [`poll_until`].
    pub(crate) fn socket(&self) -> (BorrowedFd<'_>, PollFlags) {
        (self.reader.as_fd(), PollFlags::IN)
    }
}
