//! An OpenAI-compatible HTTP server of checkpoints.
#![doc = include_str!("../README.md")]

mod answer;
mod api;
mod auth;
mod chat;
mod drain;
mod engine_thread;
mod error;
mod limits;
mod metrics;
mod model;
mod receive;
mod router;
mod server;
mod stream;
mod token_texts;

pub use auth::ApiKeys;
pub use error::{Error, Result};
pub use limits::Limits;
pub use model::ModelToServe;
pub use server::{Ended, Server, ServerConfig};
