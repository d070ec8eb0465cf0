//! Batched generation with a cache of keys and values: prompts in, completions out.

mod cache;
mod engine;
mod sample;

pub use engine::{Completion, GenerationConfig, GenerationStats, Generator, Request};
pub use sample::Sampling;
