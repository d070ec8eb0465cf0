//! The report of a run, in a frame that may do nothing.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use rand::Rng;
use spag_io::EnclosedFolder;
use spag_run::files;
use spag_serve::ApiError;

use crate::assets::guard;

/// Bytes of a report.
const MAX_BYTES: u64 = 1 << 26;
/// How long a ticket holds: a frame is loaded at once.
const TICKET_TIME: Duration = Duration::from_secs(60);
/// Tickets at a time; the oldest is dropped.
const MAX_TICKETS: usize = 256;

/// The report has styles of its own and no scripts.
const POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'self'";

/// Tickets for the report: random names that clients with a key get, for a frame that cannot send a key.
#[derive(Default)]
pub(super) struct Tickets(Mutex<VecDeque<(String, Instant)>>);

impl Tickets {
    /// A new ticket.
    pub(super) fn issue(&self) -> String {
        let mut rng = rand::rng();
        let ticket = format!("{:032x}{:032x}", rng.random::<u128>(), rng.random::<u128>());
        if let Ok(mut tickets) = self.0.lock() {
            tickets.push_back((ticket.clone(), Instant::now()));
            while tickets.len() > MAX_TICKETS {
                tickets.pop_front();
            }
        }
        ticket
    }

    /// Whether a ticket was issued and holds.
    pub(super) fn holds(&self, ticket: &str) -> bool {
        let Ok(mut tickets) = self.0.lock() else { return false };
        tickets.retain(|(_, issued)| issued.elapsed() < TICKET_TIME);
        // Digests, so that the time of a comparison says nothing.
        let digest = spag_io::sha256(ticket.as_bytes());
        tickets.iter().any(|(known, _)| spag_io::sha256(known.as_bytes()) == digest)
    }
}

/// Whether a run has a report.
pub(super) fn exists(run: &EnclosedFolder) -> bool {
    run.has_file(files::REPORT_PAGE)
}

/// The report.
///
/// # Errors
/// There is none, or it cannot be read.
pub(super) fn answer(run: &EnclosedFolder) -> Result<Response, ApiError> {
    if !exists(run) {
        return Err(ApiError::not_found("This run has no report yet"));
    }
    let bytes = run.read_whole(files::REPORT_PAGE, MAX_BYTES);
    let bytes = bytes.map_err(|error| ApiError::server(spag_io::quote(&error.to_string())))?;
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    guard(headers, POLICY);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_issued_tickets_hold() {
        let tickets = Tickets::default();
        let ticket = tickets.issue();
        assert!(tickets.holds(&ticket) && tickets.holds(&ticket));
        assert!(!tickets.holds("") && !tickets.holds(&ticket[1..]));
        (0..MAX_TICKETS).for_each(|_| drop(tickets.issue()));
        assert!(!tickets.holds(&ticket));
    }
}
