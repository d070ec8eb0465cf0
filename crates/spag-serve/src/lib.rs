//! An OpenAI-compatible HTTP server of checkpoints.
#![doc = include_str!("../README.md")]

// Each layer uses those above it, and all use the errors and the fields of `api`.
// Rules for requests, and what a server counts and limits.
mod auth;
mod browser;
mod defaults;
mod drain;
mod error;
mod half_close;
mod json_size;
mod limits;
mod metrics;
mod receive;
mod token_texts;
mod workers;
// Engines, the models that they run, and the names of these.
mod engine_thread;
mod model;
mod pool;
// What requests say, and the forms of answers.
mod answer;
mod api;
mod stream;
// What all requests share, and how they reach it.
mod app;
mod connections;
mod extension;
mod router;
// The socket and the end.
mod background;
mod server;

pub use api::ApiError;
pub use app::AdapterLoading;
pub use auth::ApiKeys;
pub use background::Background;
pub use error::{Error, Result};
pub use extension::{Access, Generation, KeptConnection, ModelHandle, Routes, Services};
pub use json_size::{JsonSize, TooManyParts};
pub use limits::{Limits, QueueLimits};
pub use model::{AdapterToServe, ModelToServe};
pub use server::{Ended, Server, ServerConfig};
pub use stream::event_response;
