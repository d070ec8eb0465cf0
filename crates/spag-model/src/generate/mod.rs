//! Generation: prompts in, completions out, by continuous batching over paged keys and values.

mod budget;
mod config;
mod detokenize;
mod engine;
mod kv;
mod recorded;
mod request;
mod sample;
mod schedule;
mod sequence;
mod stats;
mod weights;

pub use budget::MemoryBudget;
pub use config::{EngineConfig, GenerationConfig, PrefixSharing};
pub use detokenize::Detokenizer;
pub use engine::Engine;
pub use request::{Completion, FinishReason, Generate, Request, RequestId};
pub use sample::Sampling;
pub use stats::{GenerationStats, GenerationTimes};
