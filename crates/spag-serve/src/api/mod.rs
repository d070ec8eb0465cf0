//! The OpenAI-compatible API: request parsing, errors, and response formats of log-probabilities.

mod chat;
mod completions;
mod error;
mod fields;
mod language;
mod length;
mod log_probs;
mod messages;
mod prompts;
mod reasoning;
mod sampling;
mod tokens;

pub(crate) use chat::ChatJob;
pub(crate) use completions::{CompletionJob, Echo};
pub use error::ApiError;
pub(crate) use error::json_response;
pub(crate) use fields::{Fields, Refused, whole};
pub(crate) use length::TextLength;
pub(crate) use log_probs::{ChatLogProb, LegacyBuilder, LegacyLogProbs};
pub(crate) use prompts::PromptInput;
pub(crate) use sampling::{Delivery, Settings, StreamUsage};
pub(crate) use tokens::{detokenize, tokenize, tokenizer_info};
