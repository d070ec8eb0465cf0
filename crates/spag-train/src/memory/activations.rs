//! Activations and temporary memory of a step.
//!
//! Legend: n tokens of a micro-batch, d hidden size, f feed-forward size, kv key/value width, v vocabulary.

use spag_model::ops::log_prob::{DEVICE_CHUNK_ELEMENTS, KEEP_ELEMENTS, chunk_rows};
use spag_model::{Activations, LayerLayout, Layout, ModelConfig, WeightDtype};

use crate::config::TrainConfig;

/// Allowance for cuBLAS's workspace and gaps between tensors.
const ALLOWANCE: u64 = 512 << 20;

/// Activations and temporary memory of a step, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepMemory {
    /// Kept activations of all blocks.
    pub(super) kept: u64,
    /// Temporary memory of a block.
    pub(super) block: u64,
    /// Temporary memory of the output head: a chunk of logits, its gradient, and the rows that predict.
    pub(super) head: u64,
    /// Allowance for cuBLAS's workspace and gaps between tensors.
    pub(super) allowance: u64,
}

impl StepMemory {
    pub(super) fn on_gpu(model: &ModelConfig, config: &TrainConfig) -> Self {
        let (element, n) = (config.dtype().bytes() as u64, tokens(config) as u64);
        let (d, f, kv) = (model.hidden_size as u64, model.intermediate_size as u64, model.kv_size() as u64);
        let (vocabulary, blocks) = (model.vocab_size as u64, model.num_hidden_layers as u64);
        // One f32 per token and query head: the log-sum-exp of attention.
        let lse = 4 * n * model.num_attention_heads as u64;
        // Read by the backward pass, beside x: q, attended and middle; k and v; gate and up.
        let read_again = n * (3 * d + 2 * kv + 2 * f) * element;
        let input = n * d * element;
        let (kept, block) = match config.activations() {
            Activations::Keep => {
                // Largest in the last block's MLP: the gradient of its output, and the activated values.
                (blocks * (input + read_again + lse), n * (d + f) * element)
            }
            Activations::Recompute => {
                let stages = [
                    // At the end of the recomputed forward pass: what backward reads, the activated values, the output
                    // and its gradient.
                    read_again + n * (2 * d + f) * element,
                    // MLP backward: normed values and two gradients in place of the activated values.
                    read_again + n * 3 * d * element,
                    // Attention backward: q, attended and three gradients of their width; k, v and their gradients.
                    n * (5 * d + 4 * kv) * element,
                ];
                (blocks * input, lse + stages.into_iter().max().unwrap_or(0))
            }
        };
        let logits = 4 * (n * vocabulary).min(DEVICE_CHUNK_ELEMENTS as u64);
        let logit_gradients = match config.dtype() {
            WeightDtype::F32 => 0,
            WeightDtype::Bf16 => logits / 2,
        };
        // Rows, normed rows, and a gradient of each.
        Self { kept, block, head: logits + logit_gradients + 4 * input, allowance: ALLOWANCE }
    }

    /// On a CPU, freed tensors stay in a pool for the next micro-batch and are reused by size. Tensors of different
    /// sizes therefore add up, even if they are needed at different times.
    pub(super) fn on_cpu(model: &ModelConfig, config: &TrainConfig) -> Self {
        let (layout, n) = (Layout::new(model), tokens(config) as u64);
        let (d, f, kv) = (model.hidden_size as u64, model.intermediate_size as u64, model.kv_size() as u64);
        let (v, blocks) = (model.vocab_size as u64, model.num_hidden_layers as u64);
        let lse = 4 * n * model.num_attention_heads as u64;
        let read_again = 4 * n * (3 * d + 2 * kv + 2 * f);
        let input = 4 * n * d;
        let (kept, tensors) = match config.activations() {
            // At the start of the last block's backward pass: two gradients, normed and activated values.
            Activations::Keep => (blocks * (input + read_again + lse), 4 * n * (4 * d + f)),
            // Attention backward: q, attended, the gradients of both and of the middle; k, v and their gradients. From
            // MLP backward, three tensors of its width, which are too large to be reused.
            Activations::Recompute if kv == d => (blocks * input, lse + 4 * n * (9 * d + 3 * f)),
            Activations::Recompute => (blocks * input, lse + 4 * n * (6 * d + 4 * kv + 3 * f)),
        };
        let (logits, pieces) = if n * v <= KEEP_ELEMENTS as u64 {
            (n * v, 0)
        } else {
            // The row gradients of all chunks are concatenated at the end.
            (n.min(chunk_rows(model.vocab_size) as u64) * v, input)
        };
        // Layers in bf16 are widened for use.
        let widened = |layer: Option<&LayerLayout>| match config.dtype() {
            WeightDtype::F32 => 0,
            WeightDtype::Bf16 => 4 * layer.map_or(0, |layer| layer.len as u64),
        };
        let head = if model.tie_word_embeddings { layout.layers.first() } else { layout.layers.last() };
        Self {
            kept,
            block: tensors + 4 * logits + widened(layout.layers.get(1)),
            head: tensors + 4 * logits + pieces + widened(head),
            allowance: 0,
        }
    }
}

/// Tokens beyond which no machine has the memory, and estimates in bytes would overflow.
const MOST_TOKENS: usize = 1 << 28;

/// Tokens of a micro-batch, at most.
fn tokens(config: &TrainConfig) -> usize {
    config.per_device_train_batch_size.saturating_mul(config.max_length).min(MOST_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(activations: Activations, dtype: WeightDtype, tokens: usize) -> StepMemory {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        let config = TrainConfig {
            per_device_train_batch_size: 1,
            max_length: tokens,
            bf16: dtype == WeightDtype::Bf16,
            gradient_checkpointing: activations == Activations::Recompute,
            ..TrainConfig::default()
        };
        StepMemory::on_gpu(&ModelConfig::from_file(path).unwrap(), &config)
    }

    #[test]
    fn block_inputs_by_hand() {
        let memory = memory(Activations::Recompute, WeightDtype::Bf16, 2 * 2048);
        // 32 blocks × 4096 tokens × 4096 × 2 bytes.
        assert_eq!(memory.kept, 1 << 30);
        // 4096 × (5·4096 + 2·4096 + 3·11008) × 2 bytes, and 4096 × 32 sums of 4 bytes.
        assert_eq!(memory.block, 505_413_632 + 524_288);
        // 4096 × 32000 × (4 + 2) bytes, and four times 4096 × 4096 × 2.
        assert_eq!(memory.head, 786_432_000 + 134_217_728);
    }

    #[test]
    fn kept_activations_of_every_block_by_hand() {
        let memory = memory(Activations::Keep, WeightDtype::Bf16, 2 * 2048);
        // 32 × (4096 × (4·4096 + 2·4096 + 2·11008) × 2 bytes + 4096 × 32 × 4).
        assert_eq!(memory.kept, 32 * (4096 * 46_592 * 2 + 524_288));
        assert_eq!(memory.block, 4096 * (4096 + 11_008) * 2);
    }

    #[test]
    fn logits_are_limited_to_a_chunk() {
        // In f32 their gradients need no memory of their own.
        assert_eq!(
            memory(Activations::Recompute, WeightDtype::F32, 100_000).head,
            (512 << 20) + 4 * 100_000 * 4096 * 4
        );
    }
}
