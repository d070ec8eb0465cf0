//! Request and response bodies that track their progress.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Response, header};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};

use super::exchange::{Exchange, Phase};

/// The probe sent within an event stream.
const COMMENT: &[u8] = b":\n\n";

impl Exchange {
    /// Tracks a request.
    pub(crate) fn request(&self, request: Request<Incoming>) -> Request<RequestBody> {
        self.enter(Phase::Reading(request.version()));
        request.map(|body| {
            let body = RequestBody { body, exchange: self.clone() };
            if body.is_end_stream() {
                body.note_end();
            }
            body
        })
    }

    /// Tracks its response.
    pub(crate) fn response(&self, response: Response<Body>) -> Response<ResponseBody> {
        self.enter(Phase::Sending);
        let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let has_events = kind.is_some_and(|kind| kind.starts_with(b"text/event-stream"));
        response.map(|body| ResponseBody { body, has_events, exchange: self.clone() })
    }
}

/// A request body that records its end.
pub(crate) struct RequestBody {
    body: Incoming,
    exchange: Exchange,
}

impl RequestBody {
    fn note_end(&self) {
        let phase = self.exchange.state().phase;
        if let Phase::Reading(version) = phase {
            self.exchange.enter(Phase::Working(version));
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.note_end();
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let had_ended = self.exchange.state().has_ended;
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            let mut state = self.exchange.state();
            state.reading = Some(cx.waker().clone());
            // Anything that arrived before the end would have been read.
            state.is_torn = had_ended;
            let is_new = state.has_ended;
            drop(state);
            if had_ended {
                self.exchange.wake();
            } else if is_new {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        };
        // The end of a chunked body is known only when it arrives.
        if frame.is_none() || self.body.is_end_stream() {
            self.note_end();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response body that records its end. Event streams get comments inserted when a probe is due.
pub(crate) struct ResponseBody {
    body: Body,
    has_events: bool,
    exchange: Exchange,
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let is_due = std::mem::take(&mut self.exchange.state().is_probe_due);
        match polled {
            // Between two chunks, each of which consists of whole events.
            Poll::Pending if is_due && self.has_events => {
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(COMMENT)))))
            }
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.exchange.enter(Phase::Receiving);
    }
}
