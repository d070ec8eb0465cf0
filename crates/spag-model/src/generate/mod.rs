//! Generation engine: continuous batching over a paged KV cache.

mod adapters;
mod completion;
mod config;
mod engine;
mod engine_adapters;
mod engine_settings;
mod event;
mod generation_config;
mod grammar;
mod grammar_step;
mod graphs;
mod kv;
mod logit_rules;
mod memory;
mod model_runner;
mod pass;
mod prompt_scores;
mod reasoning;
mod refresh;
mod request;
mod schedule;
mod sequence;
mod stats;
mod text;
mod weight_state;

pub use crate::error::RequestError;
pub use completion::{Completion, FinishReason, RequestId};
pub use config::{EngineConfig, MemoryBudget, PrefixSharing, Processor};
pub use engine::{Engine, EngineLoad};
pub use engine_settings::EngineSettings;
pub use event::{Event, TokenEvent};
pub use generation_config::{
    AdapterChoice, CompletionText, EosRule, GenerationConfig, LogProbs, Overflow, PromptRange, Streamed,
};
pub use grammar::{AllowedTokens, Grammar, GrammarState, SharedGrammar};
pub use logit_rules::LogitRules;
pub use memory::{GenerationMemory, GenerationMemorySettings, PromptLogProbs};
pub use reasoning::{ReasoningBudget, ReasoningTokens};
pub use request::{Generate, Prompt, Request};
pub use spag_ops::kernels::SumOrder;
pub use spag_ops::sample::{Distribution, Sampling, TokenLogProb};
pub use stats::{GenerationStats, GenerationTimes};
