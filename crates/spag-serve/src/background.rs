//! A server in the background of a process with other work.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::connections::Connections;

/// Time to finish requests in progress after the server is dropped.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// A server on background threads; the process keeps its signal handlers.
///
/// On drop, it finishes the requests in progress and stops, after at most 2 seconds.
pub struct Background {
    address: SocketAddr,
    connections: Connections,
    /// `None` after shutdown.
    runtime: Option<Runtime>,
}

impl Background {
    pub(crate) fn new(address: SocketAddr, runtime: Runtime, connections: Connections) -> Self {
        Self { address, connections, runtime: Some(runtime) }
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let connections = self.connections.clone();
        // Not `block_on`, which panics in a thread of another runtime.
        let (finished, end) = mpsc::channel::<()>();
        runtime.spawn(async move {
            connections.finish().await;
            drop(finished);
        });
        let _ = end.recv_timeout(LAST_ANSWERS);
        runtime.shutdown_background();
    }
}

#[cfg(test)]
mod tests;
