//! Generation engine: continuous batching over a paged KV cache.

mod adapters;
mod config;
mod engine;
mod engine_settings;
mod event;
mod generation_config;
mod grammar;
mod graphs;
mod kv;
mod logit_rules;
mod model_runner;
mod pass;
mod prompt_scores;
mod refresh;
mod request;
mod request_error;
mod schedule;
mod sequence;
mod stats;
mod text;

pub use config::{EngineConfig, MemoryBudget, PrefixSharing, Processor};
pub use engine::{Engine, EngineLoad};
pub use engine_settings::EngineSettings;
pub use event::{Event, TokenEvent};
pub use generation_config::{AdapterChoice, EosRule, GenerationConfig, LogProbs, Overflow, PromptRange, Streamed};
pub use grammar::{AllowedTokens, Grammar, GrammarState, SharedGrammar};
pub use logit_rules::LogitRules;
pub use request::{Completion, FinishReason, Generate, Prompt, Request, RequestId};
pub use request_error::RequestError;
pub use stats::{GenerationStats, GenerationTimes};
pub use text::CompletionText;
