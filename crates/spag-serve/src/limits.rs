//! What a request may ask for, and what the server holds at once.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The limits of a server that its owner sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Sequences that wait for a place in the batch of one model, at most. A sequence is one completion of one prompt.
    pub max_waiting: usize,
    /// Bytes of the body of a request, at most.
    pub max_body_bytes: usize,
    /// Time for a client to send the headers of a request, and again its body.
    pub read_timeout: Duration,
    /// Time for a client to take any part of what is sent to it. Then its connection is closed and its sequences end.
    pub write_timeout: Duration,
    /// Open connections, at most. Others wait until one is closed.
    pub max_connections: usize,
}

impl Limits {
    /// Values of [`Limits::max_waiting`].
    pub const WAITING: RangeInclusive<usize> = 0..=1 << 20;
    /// Values of [`Limits::max_body_bytes`] in MiB.
    pub const BODY_MIB: RangeInclusive<usize> = 1..=1024;
    /// Values of [`Limits::read_timeout`] and [`Limits::write_timeout`] in seconds.
    pub const TIMEOUT: RangeInclusive<f64> = 0.01..=86_400.0;
    /// Values of [`Limits::max_connections`].
    pub const CONNECTIONS: RangeInclusive<usize> = 1..=1 << 20;
}

impl Default for Limits {
    /// 1,024 waiting sequences, 8 MiB, 30 and 60 seconds, 4,096 connections.
    fn default() -> Self {
        Self {
            max_waiting: 1024,
            max_body_bytes: 8 << 20,
            read_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            max_connections: 4096,
        }
    }
}

/// Bytes of the headers of a request. hyper reads up to [`HEADER_BUFFER`], so that the answer can say what is wrong.
pub(crate) const MAX_HEADER_BYTES: usize = 16 << 10;
/// Bytes of headers beyond which a connection gets 431 without a body.
pub(crate) const HEADER_BUFFER: usize = 64 << 10;
/// Headers of a request beyond which a connection gets 431 without a body.
pub(crate) const MAX_HEADERS: usize = 100;
/// Bytes of all bodies that are being received, at most; also at least four of the largest.
pub(crate) const RECEIVED_BYTES: usize = 256 << 20;
/// Bytes of a body that is too large which are read before it is refused.
pub(crate) const DISCARDED_BYTES: usize = 64 << 20;
/// Bodies that are parsed, encoded or rendered at once. Parsed JSON takes a multiple of its size.
pub(crate) const WORKERS: usize = 4;
/// Completions of one prompt.
pub(crate) const MAX_N: usize = 128;
/// Prompts of a request, times completions of each.
pub(crate) const MAX_SEQUENCES: usize = 1024;
/// Stop strings of a request.
pub(crate) const MAX_STOPS: usize = 64;
/// Bytes of a stop string.
pub(crate) const MAX_STOP_BYTES: usize = 1024;
/// Stop tokens of a request.
pub(crate) const MAX_STOP_TOKENS: usize = 1024;
/// Alternatives of a token.
pub(crate) const MAX_TOP: usize = 20;
/// Messages of a conversation.
pub(crate) const MAX_MESSAGES: usize = 4096;
/// Events of one request that are put into one piece of a stream.
pub(crate) const MAX_COALESCED: usize = 256;
