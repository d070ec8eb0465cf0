//! Messages over a non-blocking connection: a length (u32, little-endian), then that many bytes of JSON.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::PollFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{poll_until, remaining};

/// Maximum bytes of an accepted message.
const MAX_MESSAGE: usize = 1 << 20;
const LENGTH: usize = 4;

/// One end of an authenticated connection.
#[derive(Debug)]
pub(crate) struct Channel {
    stream: TcpStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    ended: bool,
}

impl Channel {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, incoming: Vec::new(), outgoing: Vec::new(), ended: false })
    }

    /// Appends a message to the send buffer.
    ///
    /// # Errors
    /// The message is too long.
    pub(crate) fn queue(&mut self, message: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(message)?;
        if text.len() > MAX_MESSAGE {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("a message of {} bytes", text.len())));
        }
        self.outgoing.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.outgoing.extend_from_slice(&text);
        Ok(())
    }

    /// Sends as much of the send buffer as possible without blocking.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => drop(self.outgoing.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the messages that have arrived, without blocking.
    ///
    /// # Errors
    /// The connection is broken, or the bytes are malformed.
    pub(crate) fn receive<M: DeserializeOwned>(&mut self) -> io::Result<Vec<M>> {
        self.read_available()?;
        let mut messages = Vec::new();
        while let Some(message) = self.take()? {
            messages.push(message);
        }
        Ok(messages)
    }

    fn read_available(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        while !self.ended && self.incoming.len() <= MAX_MESSAGE {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.ended = true,
                Ok(read) => self.incoming.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Data that arrived before the break may contain its cause.
                Err(error) if self.incoming.is_empty() => return Err(error),
                Err(_) => self.ended = true,
            }
        }
        Ok(())
    }

    fn take<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        let Some((length, rest)) = self.incoming.split_first_chunk::<LENGTH>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MAX_MESSAGE {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes")));
        }
        let Some(text) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(text)?;
        self.incoming.drain(..LENGTH + length);
        Ok(Some(message))
    }

    /// Whether the other side has closed the connection.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether neither side has closed the connection.
    pub(crate) fn is_open(&mut self) -> bool {
        self.read_available().is_ok() && !self.ended
    }

    /// Whether the send buffer is empty.
    pub(crate) fn is_flushed(&self) -> bool {
        self.outgoing.is_empty()
    }

    /// Closes the sending direction only.
    pub(crate) fn close_sending(&self) {
        // Fails only if the connection is closed already.
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// The socket and the events for [`poll_until`].
    pub(crate) fn socket(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = if self.outgoing.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
        (self.stream.as_fd(), flags)
    }

    /// Sends a message and blocks until the system has accepted it.
    ///
    /// # Errors
    /// The connection is broken, or `TimedOut`.
    pub(crate) fn send_by(&mut self, message: &impl Serialize, deadline: Instant) -> io::Result<()> {
        self.queue(message)?;
        loop {
            self.flush()?;
            if self.outgoing.is_empty() {
                return Ok(());
            }
            self.wait(deadline)?;
        }
    }

    /// Blocks until the next message has arrived.
    ///
    /// # Errors
    /// The connection is broken, `UnexpectedEof` or `TimedOut`.
    pub(crate) fn receive_by<M: DeserializeOwned>(&mut self, deadline: Instant) -> io::Result<M> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            if self.ended {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.wait(deadline)?;
            self.read_available()?;
        }
    }

    /// Sends queued data, then closes the sending direction and discards incoming data. `false` once the peer has closed
    /// the connection too, or it is broken.
    pub(crate) fn finish(&mut self) -> bool {
        if self.flush().is_err() || self.read_available().is_err() {
            return false;
        }
        self.incoming.clear();
        if self.is_flushed() {
            self.close_sending();
        }
        !self.ended
    }

    fn wait(&self, deadline: Instant) -> io::Result<()> {
        if remaining(deadline).is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        poll_until(&[self.socket()], deadline)
    }
}
