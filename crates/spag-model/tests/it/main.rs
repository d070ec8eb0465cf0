//! Models, tokenizers, checkpoints and generation.

mod adapter;
mod adapter_rows;
mod autograd;
mod bf16;
mod checkpoint;
mod common;
mod completion_text;
mod cpu_paths;
mod engine;
mod eos;
mod events;
mod exact;
mod families;
mod family_samples;
mod generate;
mod generation_memory;
mod gguf;
mod gguf_blocks;
mod gguf_memory;
mod gguf_oracle;
mod hostile_gguf;
mod hostile_pieces;
mod hostile_tokenizer;
mod hostile_weights;
mod kernels;
mod long_sequences;
mod oracle;
mod piece_model;
mod prompt_log_probs;
mod quantised;
mod quantised_files;
mod reasoning;
mod refresh;
mod sampling;
mod tokenizer_families;
mod torch_files;
mod trees;

/// Counts all bytes held, for memory tests.
#[global_allocator]
static HELD: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);
