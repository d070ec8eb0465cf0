//! Decoder-only language models on candle tensors: hand-written forward and backward passes, checkpoints as downloaded
//! (folders and GGUF files), and a continuous-batching generation engine. The crate works on tokens; it has no notion of
//! games.
//!
//! ```
//! use spag_model::{Activations, FlatBuffers, Model, ModelConfig, PackedBatch, Targets};
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

// ── Model definition ──
mod adapter;
mod config;
mod dtype;
mod error;
mod gguf;
mod params;

// ── Computation ──
mod batch;
mod model;
mod packed_weights;
mod rate;

// ── Checkpoints and generation ──
mod checkpoint;
mod generate;
mod tokenizer;

pub use adapter::{Adapter, BaseDigest, LoraConfig};
pub use batch::{PackedBatch, Targets};
pub use checkpoint::{
    Checkpoint, LoadOptions, ShardSize, WriteOptions, WrittenFile, check_checkpoint, is_quantised, load_config,
    load_model, load_model_with, load_quantised, load_quantised_layers, load_tokenizer, own_head_note, python_files,
    read_buffers, read_tensors, save_checkpoint, save_model, weights_digest, write_buffers, write_random_model,
};
pub use config::{
    Architecture, Biases, Embeddings, HeadNorm, ModelConfig, NormWeights, Norms, OutputHead, Position, Projections,
    Rope, RopeScaling,
};
pub use dtype::{DtypeChoice, WeightDtype};
pub use error::{Error, Result};
pub use generate::{
    AdapterChoice, AllowedTokens, Completion, CompletionText, Engine, EngineConfig, EngineLoad, EngineSettings,
    EosRule, Event, FinishReason, Generate, GenerationConfig, GenerationMemory, GenerationMemorySettings,
    GenerationStats, GenerationTimes, Grammar, GrammarState, LogProbs, LogitRules, MemoryBudget, Overflow,
    PrefixSharing, Processor, Prompt, PromptLogProbs, PromptRange, Request, RequestError, RequestId, SharedGrammar,
    Streamed, TokenEvent,
};
pub use model::{Activations, Forward, Model, Network, Quantisation, SavedElements};
pub use packed_weights::{QuantisedLayers, ReplacedMatrix};
pub use params::{
    Adapted, AdapterPlaces, AdapterWeights, FlatBuffers, GradientSink, LayerLayout, Layout, Part, Update, View,
    WeightSource,
};
pub use rate::measured_flops;
pub use spag_ops::kernels::SumOrder;
pub use spag_ops::matmul::Arithmetic;
pub use spag_ops::quantised::BlockFormat;
pub use spag_ops::sample::{Distribution, Sampling, TokenLogProb};
pub use tokenizer::{BosRule, Detokenizer, SpecialIds, SpecialTokens, Tokenizer};
