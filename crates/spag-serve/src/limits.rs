//! What a request may ask for, and what the server holds at once.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Timeouts in seconds.
const TIMEOUT: RangeInclusive<f64> = 0.01..=86_400.0;

spag_io::settings! {
    /// The queue of a server's models.
    #[derive(Copy, clap::Args)]
    pub flags QueueLimits {
        /// Maximum number of sequences that wait for a place in the batch of a model. Requests beyond it get status 429.
        #[arg(value_name = "N", help_heading = "Network")]
        pub max_waiting: usize [0..=1 << 20] = 1024;
    }

    /// The limits of a server that its owner sets.
    #[derive(Copy, clap::Args)]
    pub flags Limits {
        /// Maximum size of a request in MiB.
        #[arg(value_name = "N", help_heading = "Network")]
        pub max_body_mib: usize [1..=1024] = 8;
        /// Seconds for a client to send the headers of a request, and again its body.
        #[arg(value_name = "X", help_heading = "Network")]
        pub read_timeout: f64 [TIMEOUT] = 30.0;
        /// Seconds for a client to take any part of an answer. Then the connection is closed.
        #[arg(value_name = "X", help_heading = "Network")]
        pub write_timeout: f64 [TIMEOUT] = 60.0;
        /// Maximum number of open connections. Others wait.
        #[arg(value_name = "N", help_heading = "Network")]
        pub max_connections: usize [1..=1 << 20] = 4096;
    }
}

impl Limits {
    /// Bytes of the body of a request, at most.
    pub fn max_body_bytes(&self) -> usize {
        self.max_body_mib << 20
    }

    /// Time for a client to send the headers of a request, and again its body.
    pub(crate) fn read_timeout(&self) -> Duration {
        seconds(self.read_timeout)
    }

    /// Time for a client to take any part of what is sent to it. Then its connection is closed and its sequences end.
    pub(crate) fn write_timeout(&self) -> Duration {
        seconds(self.write_timeout)
    }
}

fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX)
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
/// Bytes of a body that take the place of another one that is worked on.
pub(crate) const LARGE_BODY: usize = 2 << 20;
/// Languages that are compiled at once, beside bodies.
pub(crate) const COMPILERS: usize = 2;
/// Bytes of a text that may be longer than the context: one whose tokens are counted, or a game whose begin is cut.
pub(crate) const LONG_TEXT: usize = 1 << 20;
/// Token ids of a text that may be longer than the context.
pub(crate) const LONG_TOKENS: usize = 1 << 18;
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
