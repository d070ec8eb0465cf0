//! An OpenAI-compatible HTTP server of checkpoints.
#![doc = include_str!("../README.md")]

mod adapters;
mod answer;
mod api;
mod auth;
mod background;
mod browser;
mod defaults;
mod drain;
mod engine_thread;
mod error;
mod extension;
mod half_close;
mod json_size;
mod limits;
mod metrics;
mod model;
mod receive;
mod router;
mod server;
mod stream;
mod token_texts;
mod workers;

pub use adapters::{AdapterLoading, AdapterToServe};
pub use api::ApiError;
pub use auth::ApiKeys;
pub use background::Background;
pub use error::{Error, Result};
pub use extension::{Access, Generation, KeptConnection, ModelHandle, Routes, Services};
pub use json_size::{JsonSize, TooManyParts};
pub use limits::{Limits, QueueLimits};
pub use model::ModelToServe;
pub use server::{Ended, Server, ServerConfig};
pub use stream::event_response;
