//! Generation engine: continuous batching over a paged KV cache.

mod config;
mod engine;
mod graphs;
mod kv;
mod model_runner;
mod request;
mod schedule;
mod sequence;
mod stats;
mod text;

pub use config::{EngineConfig, GenerationConfig, MemoryBudget, PrefixSharing};
pub use engine::Engine;
pub use request::{Completion, FinishReason, Generate, Request, RequestId};
pub use stats::{GenerationStats, GenerationTimes};
pub use text::CompletionText;
