//! Limits of requests and of the server.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Range of timeouts in seconds.
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
    /// Maximum bytes of a request body.
    pub fn max_body_bytes(&self) -> usize {
        self.max_body_mib << 20
    }

    /// Timeout for a client to send the headers of a request, and again for its body.
    pub(crate) fn read_timeout(&self) -> Duration {
        seconds(self.read_timeout)
    }

    /// Timeout for a client to accept any part of a response. Then its connection is closed and its sequences are
    /// aborted.
    pub(crate) fn write_timeout(&self) -> Duration {
        seconds(self.write_timeout)
    }
}

fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX)
}

/// Maximum bytes of request headers. hyper reads up to [`HEADER_BUFFER`], so that the error response can name the
/// cause.
pub(crate) const MAX_HEADER_BYTES: usize = 16 << 10;
/// Maximum bytes of headers before hyper returns 431 without a body.
pub(crate) const HEADER_BUFFER: usize = 64 << 10;
/// Maximum number of headers before hyper returns 431 without a body.
pub(crate) const MAX_HEADERS: usize = 100;
/// Maximum bytes of all bodies being received, raised if needed to four of the largest.
pub(crate) const RECEIVED_BYTES: usize = 256 << 20;
/// Maximum bytes of a too large body that are read before it is refused.
pub(crate) const DISCARDED_BYTES: usize = 64 << 20;
/// Maximum bodies parsed, encoded or rendered concurrently. Parsed JSON takes a multiple of its size.
pub(crate) const WORKERS: usize = 4;
/// Bytes of a body that occupy one more worker.
pub(crate) const LARGE_BODY: usize = 2 << 20;
/// Maximum languages compiled concurrently, in addition to bodies.
pub(crate) const COMPILERS: usize = 2;
/// Maximum bytes of a text that may exceed the context: one whose tokens are counted, or a game whose beginning is
/// truncated.
pub(crate) const LONG_TEXT: usize = 1 << 20;
/// Maximum token ids of a text that may exceed the context.
pub(crate) const LONG_TOKENS: usize = 1 << 18;
/// Maximum completions per prompt.
pub(crate) const MAX_N: usize = 128;
/// Maximum prompts times completions of a request.
pub(crate) const MAX_SEQUENCES: usize = 1024;
/// Maximum stop strings of a request.
pub(crate) const MAX_STOPS: usize = 64;
/// Maximum bytes of a stop string.
pub(crate) const MAX_STOP_BYTES: usize = 1024;
/// Maximum stop tokens of a request.
pub(crate) const MAX_STOP_TOKENS: usize = 1024;
/// Maximum alternatives per token.
pub(crate) const MAX_TOP: usize = 20;
/// Maximum messages of a conversation.
pub(crate) const MAX_MESSAGES: usize = 4096;
/// Maximum events of a request coalesced into one chunk of a stream.
pub(crate) const MAX_COALESCED: usize = 256;
