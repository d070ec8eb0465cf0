//! Bodies of requests: received within limits of size and time, and worked on outside of the threads of the network.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use hyper::body::{Body as _, Bytes};
use spag_io::{catch_panic, quote};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::ApiError;
use crate::limits::{DISCARDED_BYTES, Limits, RECEIVED_BYTES, WORKERS};

/// Unit of the memory of bodies.
const UNIT: usize = 1024;

/// Time for the rest of a body that is too large.
const DISCARDING: Duration = Duration::from_secs(2);

/// Receives bodies.
pub(crate) struct Receiver {
    limits: Limits,
    /// Memory of bodies that are being received or worked on.
    memory: Arc<Semaphore>,
    workers: Arc<Semaphore>,
}

/// A body, and its share of the memory.
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    _memory: Option<OwnedSemaphorePermit>,
}

/// Reads the rest of a body, up to a limit.
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
            workers: Arc::new(Semaphore::new(WORKERS)),
        }
    }

    /// The body of a request.
    ///
    /// # Errors
    /// It is not JSON by its header, too large, or does not arrive in time; or too many bodies arrive at once.
    pub(crate) async fn receive(&self, request: Request) -> Result<Received, ApiError> {
        if let Some(kind) = request.headers().get(header::CONTENT_TYPE) {
            let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
            // Pages of other origins can send other types without the server's consent.
            if !kind.eq_ignore_ascii_case("application/json") {
                return Err(ApiError::not_json());
            }
        }
        let mut body = request.into_body();
        let received = tokio::time::timeout(self.limits.read_timeout(), self.all(&mut body)).await;
        let received = received.unwrap_or_else(|_| Err(ApiError::slow(self.limits.read_timeout().as_secs_f64())));
        if received.as_ref().is_err_and(|error| error.status == StatusCode::PAYLOAD_TOO_LARGE) {
            // A client that is cut off while it sends does not see the answer.
            let _ = tokio::time::timeout(DISCARDING, discard(&mut body)).await;
        }
        received
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

    /// Runs `work` on another thread, where it may take long. A panic in it is an error of this request.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let fault = |what: String| ApiError::server(format!("A fault of this server: {}", quote(&what)));
        let place = self.workers.clone().acquire_owned().await.map_err(|error| fault(error.to_string()))?;
        let task = tokio::task::spawn_blocking(move || {
            let _place = place;
            catch_panic(work)
        });
        task.await.map_err(|error| fault(error.to_string()))?.unwrap_or_else(|panic| Err(fault(panic)))
    }
}
