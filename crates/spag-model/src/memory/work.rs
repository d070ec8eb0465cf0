//! What a step computes with, beside parameters, gradients and the optimizer's state.
//!
//! Legend: n tokens of a micro-batch, d hidden size, f feed-forward size, kv key/value width, v vocabulary.

use super::training::TrainingSettings;
use crate::checkpoint::WeightDtype;
use crate::config::LlamaConfig;
use crate::llama::Activations;
use crate::params::{LayerLayout, Layout};

/// On a GPU logits exist in chunks of at most so many bytes in f32.
const LOGITS_CHUNK: u64 = 512 << 20;
/// For cuBLAS's workspace and for gaps between tensors: an allowance, not a sum.
const ALLOWANCE: u64 = 512 << 20;

/// Logits that exist at a time on a CPU, in elements, and how many are kept for the backward pass where all fit: as
/// `ops/log_prob.rs` has it.
const CPU_LOGITS: u64 = 1 << 22;
const CPU_KEPT_LOGITS: u64 = 1 << 24;

/// Activations and what is made of them, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    /// What is kept of all blocks between their forward and their backward pass.
    pub(super) kept: u64,
    /// What the one block at work needs beside that.
    pub(super) block: u64,
    /// What the output head needs: a chunk of logits, its gradient, and the rows that predict. Not at the same time as a
    /// block.
    pub(super) head: u64,
    /// For cuBLAS's workspace and for gaps between tensors: an allowance.
    pub(super) allowance: u64,
}

impl Work {
    pub(super) fn on_gpu(config: &LlamaConfig, settings: &TrainingSettings) -> Self {
        let (element, n) = (settings.dtype.bytes() as u64, settings.tokens as u64);
        let (d, f, kv) = (config.hidden_size as u64, config.intermediate_size as u64, config.kv_size() as u64);
        let (vocabulary, blocks) = (config.vocab_size as u64, config.num_hidden_layers as u64);
        // One f32 a token and query head: the logarithm of attention's sum.
        let lse = 4 * n * config.num_attention_heads as u64;
        // Beside x, what backward reads: q, attended and middle; k and v; gate and up.
        let read_again = n * (3 * d + 2 * kv + 2 * f) * element;
        let input = n * d * element;
        let (kept, block) = match settings.activations {
            Activations::Keep => {
                // Largest at the last block's MLP: the gradient of its output, and the activated values.
                (blocks * (input + read_again + lse), n * (d + f) * element)
            }
            Activations::Recompute => {
                let stages = [
                    // The forward pass again, at its end: what backward reads, the activated values, the output; and the
                    // gradient of the output, which waits.
                    read_again + n * (2 * d + f) * element,
                    // The MLP's backward pass: normed values and two gradients where the activated values were.
                    read_again + n * 3 * d * element,
                    // Attention's: q, attended and three gradients of their width; k, v and their gradients.
                    n * (5 * d + 4 * kv) * element,
                ];
                (blocks * input, lse + stages.into_iter().max().unwrap_or(0))
            }
        };
        let logits = (4 * n * vocabulary).min(LOGITS_CHUNK);
        let logit_gradients = match settings.dtype {
            WeightDtype::F32 => 0,
            WeightDtype::Bf16 => logits / 2,
        };
        // Rows, their norm, and a gradient of each.
        Self { kept, block, head: logits + logit_gradients + 4 * input, allowance: ALLOWANCE }
    }

    /// On a CPU tensors go back to a pool of spare memory, by size, and stay there for the next micro-batch: what was
    /// needed at different times adds up unless it has the same size.
    pub(super) fn on_cpu(config: &LlamaConfig, settings: &TrainingSettings, layout: &Layout) -> Self {
        let n = settings.tokens as u64;
        let (d, f, kv) = (config.hidden_size as u64, config.intermediate_size as u64, config.kv_size() as u64);
        let (v, blocks) = (config.vocab_size as u64, config.num_hidden_layers as u64);
        let lse = 4 * n * config.num_attention_heads as u64;
        let read_again = 4 * n * (3 * d + 2 * kv + 2 * f);
        let input = 4 * n * d;
        let (kept, tensors) = match settings.activations {
            // The last block's backward pass begins beside everything: two gradients, normed and activated values.
            Activations::Keep => (blocks * (input + read_again + lse), 4 * n * (4 * d + f)),
            // Attention's backward pass: q, attended, the gradients of both and of the middle; k, v and theirs; from
            // the MLP's, three of its width, whose memory is too large for the others.
            Activations::Recompute if kv == d => (blocks * input, lse + 4 * n * (9 * d + 3 * f)),
            Activations::Recompute => (blocks * input, lse + 4 * n * (6 * d + 4 * kv + 3 * f)),
        };
        let (logits, pieces) = match n * v <= CPU_KEPT_LOGITS {
            true => (n * v, 0),
            // The gradients of the chunks' rows are put together at the end.
            false => (n.min((CPU_LOGITS / v.max(1)).clamp(16, 8192)) * v, input),
        };
        // Layers in bf16 are widened when they are used.
        let widened = |layer: Option<&LayerLayout>| match settings.dtype {
            WeightDtype::F32 => 0,
            WeightDtype::Bf16 => 4 * layer.map_or(0, |layer| layer.len as u64),
        };
        let head = match config.tie_word_embeddings {
            true => layout.layers.first(),
            false => layout.layers.last(),
        };
        Self {
            kept,
            block: tensors + 4 * logits + widened(layout.layers.get(1)),
            head: tensors + 4 * logits + pieces + widened(head),
            allowance: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::OptimizerPlace;

    /// Two sequences of 2 048 tokens.
    fn work(activations: Activations, dtype: WeightDtype, tokens: usize) -> Work {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        let config = LlamaConfig::from_file(path).unwrap();
        Work::on_gpu(&config, &TrainingSettings { dtype, tokens, activations, optimizer: OptimizerPlace::Device })
    }

    #[test]
    fn block_inputs_by_hand() {
        let work = work(Activations::Recompute, WeightDtype::Bf16, 2 * 2048);
        // 32 blocks × 4096 tokens × 4096 × 2 bytes.
        assert_eq!(work.kept, 1 << 30);
        // 4096 × (5·4096 + 2·4096 + 3·11008) × 2 bytes, and 4096 × 32 sums of 4 bytes.
        assert_eq!(work.block, 505_413_632 + 524_288);
        // 4096 × 32000 × (4 + 2) bytes, and four times 4096 × 4096 × 2.
        assert_eq!(work.head, 786_432_000 + 134_217_728);
    }

    #[test]
    fn keeping_everything_costs_every_block() {
        let work = work(Activations::Keep, WeightDtype::Bf16, 2 * 2048);
        // 32 × (4096 × (4·4096 + 2·4096 + 2·11008) × 2 bytes + 4096 × 32 × 4).
        assert_eq!(work.kept, 32 * (4096 * 46_592 * 2 + 524_288));
        assert_eq!(work.block, 4096 * (4096 + 11_008) * 2);
    }

    #[test]
    fn logits_are_no_more_than_a_chunk() {
        // In f32 their gradients need no memory of their own.
        assert_eq!(work(Activations::Recompute, WeightDtype::F32, 100_000).head, (512 << 20) + 4 * 100_000 * 4096 * 4);
    }
}
