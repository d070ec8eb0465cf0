//! Server-sent event responses.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream::unfold;
use spag_model::generate::Event;

use crate::answer::{Answer, Pieces};
use crate::api::ApiError;
use crate::drain::Busy;
use crate::engine_thread::{SequenceEvent, Sequences};
use crate::limits::MAX_COALESCED;

/// A response of server-sent events: calls `next` until it returns nothing. `cache` is the value of `cache-control`.
pub fn event_response<S, F>(cache: &'static str, state: S, next: impl Fn(S) -> F + Send + 'static) -> Response
where
    S: Send + 'static,
    F: Future<Output = Option<(Vec<u8>, S)>> + Send + 'static,
{
    let pieces = unfold(state, move |state| {
        let next = next(state);
        async { next.await.map(|(bytes, state)| (Ok::<_, Infallible>(bytes), state)) }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    // Tells proxies not to buffer events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A response that streams an answer with `open` sequences; `None` if there is nothing to compute.
///
/// Shutdown waits until `busy` is dropped.
pub(crate) fn respond(mut answer: impl Answer, sequences: Option<Sequences>, open: usize, busy: Busy) -> Response {
    let open = if sequences.is_some() { open } else { 0 };
    let mut pieces = Pieces::default();
    let begun = answer.begin(&mut pieces);
    let mut stream = EventStream { answer, sequences, open, pieces, ended: false, _busy: busy };
    if let Err(error) = begun {
        stream.fail(&ApiError::server(error.to_string()));
    }
    event_response("no-cache", stream, EventStream::next)
}

struct EventStream<A> {
    answer: A,
    sequences: Option<Sequences>,
    /// Number of sequences that have not ended.
    open: usize,
    /// Data to be sent.
    pieces: Pieces,
    ended: bool,
    _busy: Busy,
}

impl<A: Answer> EventStream<A> {
    /// The next chunk of the stream, with all events available now.
    async fn next(mut self) -> Option<(Vec<u8>, Self)> {
        let mut events = 0;
        while !self.ended && (self.pieces.is_empty() || events < MAX_COALESCED) {
            let Some(sequences) = self.sequences.as_mut().filter(|_| self.open > 0) else {
                self.answer.head().end(&mut self.pieces);
                self.end();
                break;
            };
            let event = match sequences.try_next() {
                Some(event) => event,
                None if self.pieces.is_empty() => sequences.next().await,
                None => break,
            };
            events += 1;
            self.receive(event);
        }
        let bytes = self.pieces.take();
        (!bytes.is_empty()).then_some((bytes, self))
    }

    /// Appends the data of an event to the stream.
    fn receive(&mut self, event: SequenceEvent) {
        let received = match event {
            Ok((at, Event::Finished(completion))) => {
                self.answer.head().count(&completion);
                self.answer.finish(at, &completion, &mut self.pieces);
                self.open = self.open.saturating_sub(1);
                Ok(())
            }
            Ok((at, event)) => {
                let pushed = self.answer.event(at, event, &mut self.pieces);
                pushed.map_err(|error| ApiError::server(error.to_string()))
            }
            Err(error) => Err(error),
        };
        if let Err(error) = received {
            self.fail(&error);
        }
    }

    /// Ends the stream and its sequences with an error.
    fn fail(&mut self, error: &ApiError) {
        self.pieces.push(&error.body());
        self.pieces.done();
        self.end();
    }

    fn end(&mut self) {
        self.sequences = None;
        self.ended = true;
    }
}
