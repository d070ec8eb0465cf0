//! Decoder-only language models on candle tensors: hand-written forward and backward passes, checkpoints (Hugging Face
//! folders and GGUF files), and a continuous-batching generation engine. The crate works on tokens and does not depend
//! on games.
//!
//! The crate root re-exports the most used names. Everything else is in the modules, listed from the bottom layer up; each
//! depends only on those above it in the list:
//!
//! | Module | Contents |
//! |---|---|
//! | [`error`] | the errors of the crate, and of single requests |
//! | [`config`] | `config.json` and the architecture |
//! | [`dtype`] | number formats of weights, and a user's choice of one |
//! | [`rate`] | measured matrix product speed of this processor, for the planner |
//! | [`params`] | the layout of parameters, their names in checkpoints, flat buffers, sources of weights and sinks of gradients |
//! | [`packed_weights`] | weights packed for generation, quantised or not |
//! | [`batch`] | packed batches and their targets |
//! | [`model`] | forward and backward passes |
//! | `gguf` | the container of GGUF files |
//! | [`tokenizer`] | tokenizers, with their BOS and EOS tokens |
//! | [`checkpoint`] | reading and writing checkpoints |
//! | [`adapter`] | LoRA adapters in PEFT's format |
//! | [`generate`] | the engine: requests, settings, events, completions, memory |
//!
//! ```
//! use spag_model::batch::{PackedBatch, Targets};
//! use spag_model::model::Activations;
//! use spag_model::params::FlatBuffers;
//! use spag_model::{Model, ModelConfig};
//! use candle_core::Device;
//!
//! # fn main() -> spag_model::Result<()> {
//! let config: ModelConfig = serde_json::from_str(
//!     r#"{"hidden_size": 8, "intermediate_size": 16, "vocab_size": 11, "num_hidden_layers": 2,
//!         "num_attention_heads": 2, "max_position_embeddings": 32}"#,
//! ).expect("valid JSON");
//! let model = Model::init(&config, 7)?;
//! // Two sequences, packed; predict the last token of each.
//! let batch = PackedBatch::new([&[1u32, 4, 5][..], &[1, 6][..]]);
//! let targets = Targets { rows: vec![1, 3], tokens: vec![5, 6], ..Targets::default() };
//! let forward = model.forward(batch, targets, Activations::Keep)?;
//! assert_eq!(forward.read_log_probs()?.len(), 2);
//! // The gradient of the sum of both log-probabilities.
//! let gradients = FlatBuffers::zeros(model.parameters().layout(), &Device::Cpu)?;
//! model.backward_from(forward, &[1.0, 1.0], &gradients)?;
//! # Ok(())
//! # }
//! ```

pub mod adapter;
pub mod batch;
pub mod checkpoint;
pub mod config;
pub mod dtype;
pub mod error;
pub mod generate;
mod gguf;
pub mod model;
pub mod packed_weights;
pub mod params;
pub mod rate;
pub mod tokenizer;

pub use checkpoint::Checkpoint;
pub use config::{Architecture, ModelConfig};
pub use error::{Error, Result};
pub use generate::{Completion, Engine, EngineConfig, Generate, GenerationConfig, Request};
pub use model::Model;
pub use tokenizer::Tokenizer;
