//! Receives request bodies within size and time limits, and processes them outside of the network threads.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use hyper::body::{Body as _, Bytes};
use spag_io::quote;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::ApiError;
use crate::json_size::JsonSize;
use crate::limits::{DISCARDED_BYTES, LARGE_BODY, Limits, RECEIVED_BYTES, WORKERS};
use crate::workers::Workers;

/// Unit of the memory of bodies.
const UNIT: usize = 1024;

/// Time limit for discarding the rest of a too large body.
const DISCARDING: Duration = Duration::from_secs(2);

/// Receives bodies.
pub(crate) struct Receiver {
    limits: Limits,
    /// Memory budget of bodies being received or processed.
    memory: Arc<Semaphore>,
    workers: Workers,
}

/// A body with its share of the memory budget.
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    _memory: Option<OwnedSemaphorePermit>,
}

/// Reads and discards the rest of a body, up to a limit.
async fn discard(body: &mut Body) {
    let mut left = DISCARDED_BYTES;
    while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        if left == 0 {
            return;
        }
    }
}

impl Receiver {
    pub(crate) fn new(limits: Limits) -> Self {
        let bytes = RECEIVED_BYTES.max(4 * limits.max_body_bytes());
        Self {
            limits,
            memory: Arc::new(Semaphore::new((bytes / UNIT).min(Semaphore::MAX_PERMITS))),
            workers: Workers::new(WORKERS),
        }
    }

    /// Receives the body of a request.
    ///
    /// # Errors
    /// It is too large, has too many parts or does not arrive in time; or too many bodies arrive concurrently.
    pub(crate) async fn receive(&self, request: Request) -> Result<Received, ApiError> {
        let mut body = request.into_body();
        let received = tokio::time::timeout(self.limits.read_timeout(), self.all(&mut body)).await;
        let received = received.unwrap_or_else(|_| Err(ApiError::slow(self.limits.read_timeout().as_secs_f64())));
        if received.as_ref().is_err_and(|error| error.status == StatusCode::PAYLOAD_TOO_LARGE) {
            // A client that is cut off while sending does not see the response.
            let _ = tokio::time::timeout(DISCARDING, discard(&mut body)).await;
        }
        let received = received?;
        let many = |error| ApiError::bad(format!("The body has too many parts: {error}"));
        JsonSize::default().add(&received.bytes).map_err(many)?;
        Ok(received)
    }

    async fn all(&self, body: &mut Body) -> Result<Received, ApiError> {
        let most = self.limits.max_body_bytes();
        if body.size_hint().lower() > most as u64 {
            return Err(ApiError::large_body(most));
        }
        let mut received = Received { bytes: Vec::new(), _memory: None };
        let mut held = 0;
        while let Some(frame) = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await {
            let frame = frame.map_err(|e| ApiError::bad(format!("The body is torn: {}", quote(&e.to_string()))))?;
            let Ok(data) = frame.into_data() else { continue };
            let size = received.bytes.len().saturating_add(data.len());
            if size > most {
                return Err(ApiError::large_body(most));
            }
            let more = size.div_ceil(UNIT) - held;
            let permits = self.memory.clone().try_acquire_many_owned(u32::try_from(more).unwrap_or(u32::MAX));
            let permits =
                permits.map_err(|_| ApiError::busy("Too many large requests arrive at once; try again later"))?;
            held += more;
            match &mut received._memory {
                Some(memory) => memory.merge(permits),
                none => *none = Some(permits),
            }
            received.bytes.extend_from_slice(&data);
        }
        Ok(received)
    }

    /// Runs `work`, which may be slow, on another thread. A panic becomes an error of this request.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.workers.run(1, work).await
    }

    /// Runs `work` on a body. Large bodies are serialized, since encoding takes hundreds of times the memory of a text.
    pub(crate) async fn work_on<T: Send + 'static>(
        &self,
        received: Received,
        work: impl FnOnce(&[u8]) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.workers.run(1 + received.bytes.len() / LARGE_BODY, move || work(&received.bytes)).await
    }
}
