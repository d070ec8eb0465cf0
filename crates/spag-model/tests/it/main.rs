//! Models, tokenizers, checkpoints and generation.

mod attention_bf16;
mod bf16;
mod checkpoint;
mod common;
mod completion_text;
mod cpu_paths;
mod differences;
mod engine;
mod eos;
mod events;
mod families;
mod family_samples;
mod generate;
mod generation_memory;
mod gguf;
mod gguf_blocks;
mod gguf_memory;
mod gguf_oracle;
mod gradients;
mod hostile_gguf;
mod hostile_pieces;
mod hostile_tokenizer;
mod hostile_weights;
mod masked_attention;
mod norm_gradients;
mod oracle;
mod piece_model;
mod prompt_log_probs;
mod refresh;
mod sampling;
mod tokenizer_families;
mod torch_files;

/// Counts every byte that is held, for the tests of memory.
#[global_allocator]
static HELD: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);
