//! An OpenAI-compatible HTTP server for checkpoints.
#![doc = include_str!("../README.md")]

// Layers, bottom first: each uses those above it, and all use the errors and fields of `api`.
// Request rules, limits and counters.
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
// Engines, their models, and model names.
mod engine_thread;
mod model;
mod pool;
// Request and response formats.
mod answer;
mod api;
mod stream;
// Shared state and routing.
mod app;
mod connections;
mod extension;
mod router;
// Socket and shutdown.
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
