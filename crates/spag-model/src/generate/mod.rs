//! Generation: prompts in, completions out, by continuous batching over paged keys and values.

mod config;
mod detokenize;
mod engine;
mod kv;
mod memory;
mod request;
mod sample;
mod schedule;
mod sequence;
mod stats;
mod weights;

pub use config::{EngineConfig, GenerationConfig, PrefixSharing};
pub use detokenize::Detokenizer;
pub use engine::Engine;
pub use memory::MemoryBudget;
pub use request::{Completion, Finish, Generate, Request, RequestId};
pub use sample::Sampling;
pub use stats::{GenerationStats, GenerationTimes};
