//! Bodies of server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use hyper::body::{Bytes, Frame};
use spag_model::Event;

use crate::answer::{Pieces, StreamedAnswer, failure};
use crate::api::ApiError;
use crate::drain::Busy;
use crate::engine_thread::{SequenceEvent, Sequences};
use crate::limits::MAX_COALESCED;

/// A response that streams an answer of `open` sequences; `None` if there is nothing to compute.
///
/// The server does not end before `busy` is dropped.
pub(crate) fn respond(
    answer: impl StreamedAnswer + Unpin,
    sequences: Option<Sequences>,
    open: usize,
    busy: Busy,
) -> Response {
    let open = if sequences.is_some() { open } else { 0 };
    let body = EventBody { answer, sequences, open, state: State::New, _busy: busy };
    let mut response = Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies must pass events on at once.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct EventBody<A> {
    answer: A,
    sequences: Option<Sequences>,
    /// Sequences that have not ended.
    open: usize,
    state: State,
    _busy: Busy,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Sending,
    Ended,
}

impl<A: StreamedAnswer> EventBody<A> {
    /// Appends what an event gives to the stream.
    fn receive(&mut self, event: Option<SequenceEvent>, stream: &mut Pieces) {
        match event {
            Some(SequenceEvent::Of(at, Event::Finished(completion))) => {
                self.answer.finish(at, &completion, stream);
                self.open = self.open.saturating_sub(1);
            }
            Some(SequenceEvent::Of(at, event @ (Event::Prompt(_) | Event::Token(_)))) => {
                if let Err(error) = self.answer.event(at, event, stream) {
                    self.fail(&ApiError::server(error.to_string()), stream);
                }
            }
            other => self.fail(&failure(other), stream),
        }
    }

    /// Ends the stream with an error, and the sequences with it.
    fn fail(&mut self, error: &ApiError, stream: &mut Pieces) {
        stream.push(&error.body());
        stream.done();
        self.sequences = None;
        self.state = State::Ended;
    }
}

impl<A: StreamedAnswer + Unpin> hyper::body::Body for EventBody<A> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let mut stream = Pieces::default();
        if this.state == State::New {
            this.state = State::Sending;
            if let Err(error) = this.answer.begin(&mut stream) {
                this.fail(&ApiError::server(error.to_string()), &mut stream);
            }
        }
        let mut is_waiting = false;
        for _ in 0..MAX_COALESCED {
            if this.state != State::Sending || this.open == 0 {
                break;
            }
            let Some(sequences) = &mut this.sequences else { break };
            let Poll::Ready(event) = sequences.poll_next(context) else {
                is_waiting = true;
                break;
            };
            this.receive(event, &mut stream);
        }
        if this.state == State::Sending && this.open == 0 {
            this.answer.end(&mut stream);
            this.sequences = None;
            this.state = State::Ended;
        }
        match stream.take() {
            bytes if !bytes.is_empty() => Poll::Ready(Some(Ok(Frame::data(Bytes::from(bytes))))),
            _ if this.state == State::Ended => Poll::Ready(None),
            _ => {
                // The channel wakes this task if it was found empty.
                if !is_waiting {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }
}
