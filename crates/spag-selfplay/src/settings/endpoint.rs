//! How requests are sent to endpoints.

use clap::Args;
use serde::{Deserialize, Serialize};
use spag_io::Range as _;

use crate::limits::{RequestTimeout, RequestsInFlight, RequestsPerMinute};

/// How requests are sent to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields)]
#[command(rename_all = "snake_case")]
pub struct EndpointSettings {
    /// Maximum number of concurrent requests to an endpoint, at most 1024; in a pool, to each of its URLs.
    #[arg(long, value_name = "N", default_value_t = Self::default().requests_in_flight, value_parser = RequestsInFlight::parse, help_heading = "Endpoints")]
    #[serde(deserialize_with = "RequestsInFlight::read")]
    pub requests_in_flight: usize,
    /// Rate limit: requests to an endpoint per minute, from 0.01 to 1000000; in a pool, to each of its URLs
    /// [default: unlimited].
    #[arg(long, value_name = "X", value_parser = RequestsPerMinute::parse, help_heading = "Endpoints")]
    #[serde(deserialize_with = "RequestsPerMinute::read")]
    pub requests_per_minute: Option<f64>,
    /// Timeout in seconds of one attempt of a request to an endpoint, from 0.001 to 86400 (a day).
    #[arg(long, value_name = "X", default_value_t = Self::default().request_timeout, value_parser = RequestTimeout::parse, help_heading = "Endpoints")]
    #[serde(deserialize_with = "RequestTimeout::read")]
    pub request_timeout: f64,
}

impl Default for EndpointSettings {
    fn default() -> Self {
        Self { requests_in_flight: 16, requests_per_minute: None, request_timeout: 120.0 }
    }
}
