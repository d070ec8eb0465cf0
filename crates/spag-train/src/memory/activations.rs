//! Activations and temporary memory of a step.
//!
//! Legend: n tokens of a pass, d hidden size, f feed-forward size, q query size, kv key/value size, v vocabulary.

use spag_model::config::OutputHead;
use spag_model::model::{Activations, Arithmetic, SavedElements};
use spag_model::{Architecture, ModelConfig};
use spag_ops::log_prob::{DEVICE_CHUNK_ELEMENTS, KEEP_ELEMENTS, chunk_rows, rounded_gradient_bytes};
use spag_ops::matmul::packed_right_bytes;

use crate::config::TrainConfig;
use crate::packing::Packing;

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
    /// On a GPU. Freed tensors stay in a pool while blocks are computed and are reused by size, so those of different sizes add up,
    /// even if they are needed at different times. The head begins and ends with an empty pool.
    pub(super) fn on_gpu(model: &ModelConfig, config: &TrainConfig) -> Self {
        let (element, n) = (config.dtype().bytes() as u64, tokens(config) as u64);
        let Sizes { d, f, q, kv, v, blocks, saved, raw } = Sizes::of(&model.architecture);
        let lse = 4 * n * saved.sums as u64;
        let read_again = n * saved.activations as u64 * element;
        let input = n * d * element;
        // At the end of the last block: the activated values; a norm's output, and the gradients of it, of the block's
        // output and of the middle; those of q, attended, k and v, and of the product of q, k and v.
        let of_kept = n * (f + 4 * d + 3 * q + 4 * kv) * element;
        // The middle, a norm's output, and the gradients of both and of the block's output; q, attended, k, v and the
        // gradients of all; fewer if some have one size and are needed at different times.
        let reused = match (q == d, kv == d) {
            (true, true) => 9 * d,
            (true, false) => 7 * d + 4 * kv,
            _ => 5 * d + 4 * (q + kv),
        };
        // The product of q, k and v; gate, up and the activated values; what is before norms, and its gradients.
        let of_recomputed = lse + n * (reused + q + 2 * kv + 3 * f + 2 * raw) * element;
        let block = BlockMemory { input, saved: read_again + lse, of_kept, of_recomputed };
        let (kept, block) = block.of_all(blocks, config.activations());
        // With trees attention has copies of keys and values, and gradients of both: a copy for each row, and less than two for
        // each row that the tree saves, which has as much memory in its activations.
        let copies = if config.packing == Some(Packing::Tree) { n * 4 * kv * element } else { 0 };
        let block = block + copies;
        let logits = 4 * (n * v).min(DEVICE_CHUNK_ELEMENTS as u64);
        let logit_gradients = if config.bf16 { logits / 2 } else { 0 };
        // Rows, normed rows, and a gradient of each.
        let head = logits + logit_gradients + 4 * input + normalised_head(&model.architecture, element);
        Self { kept, block, head, allowance: ALLOWANCE }
    }

    /// On a CPU, with what attention multiplies bf16 in: in f32, copies of queries, keys and values while it runs.
    ///
    /// Trees are planned as the sequences apart. Attention's backward pass has gradients of keys and values for each segment's
    /// ancestors; they have fewer than twice the rows that the tree saves, and a row saves more than four times as much.
    ///
    /// Freed tensors stay in a pool for the next micro-batch and are reused by size. Tensors of different
    /// sizes therefore add up, even if they are needed at different times.
    pub(super) fn on_cpu(model: &ModelConfig, config: &TrainConfig, attention: Arithmetic) -> Self {
        let n = tokens(config) as u64;
        let Sizes { d, f, q, kv, v, blocks, saved, raw } = Sizes::of(&model.architecture);
        let lse = 4 * n * saved.sums as u64;
        // In bf16 what attention and the MLP save is rounded. So are the values that SwiGLU gives, but not their gradients.
        let rounded = config.dtype().bytes() as u64 * n * (saved.activations as u64 - raw - d);
        let read_again = rounded + 4 * n * (raw + d);
        let activated = if config.bf16 { 2 * n * f } else { 0 };
        let input = 4 * n * d;
        let normed = 2 * config.dtype().bytes() as u64 * n * d;
        // At the start of the last block's backward pass: two gradients, activated values, and the normed ones of block
        // and head, which are in the format of the weights.
        let of_kept = 4 * n * (2 * d + f) + normed;
        // Attention backward: what was saved, the gradients of q, attended, k and v, and of the middle. From MLP backward,
        // a tensor of its width, which is too large to be reused. Queries and keys before their norms have gradients of
        // their own.
        let middle = if kv == d && q == d { d } else { 2 * d };
        let of_recomputed = lse + rounded + 4 * n * (2 * q + 2 * kv + middle + f + 2 * raw);
        let block = BlockMemory { input, saved: read_again + lse, of_kept, of_recomputed };
        let (kept, tensors) = block.of_all(blocks, config.activations());
        // The output in f32 takes the place of a gradient.
        let widened = if config.bf16 && attention == Arithmetic::F32 { 4 * n * (q + 2 * kv) } else { 0 };
        let (logits, pieces) = if n * v <= KEEP_ELEMENTS as u64 {
            (n * v, 0)
        } else {
            // The row gradients of all chunks are concatenated at the end.
            (n.min(chunk_rows(v as usize) as u64) * v, input)
        };
        // Products in bf16 pack their operands. The largest left operands are the gradients of a chunk of logits, whose memory is
        // kept for the next micro-batch.
        let chunk = n.min(chunk_rows(v as usize) as u64) * v;
        let packed = |left: u64, right: u64| match config.bf16 {
            true => rounded_gradient_bytes() * left + packed_right_bytes() * right,
            false => 0,
        };
        // In bf16 the stored rows are widened, and the normalised ones rounded.
        let normalised = normalised_head(&model.architecture, if config.bf16 { 8 } else { 4 });
        Self {
            kept,
            block: tensors + widened + activated + 4 * logits + packed(chunk, d * f + n * (d + f)),
            head: tensors + widened + activated + 4 * logits + pieces + packed(chunk, v * d + n * d) + normalised,
            allowance: 0,
        }
    }
}

/// Bytes of a block.
struct BlockMemory {
    /// Of its input.
    input: u64,
    /// Of its other saved activations.
    saved: u64,
    /// Temporary, if these are kept.
    of_kept: u64,
    /// Temporary, if they are recomputed.
    of_recomputed: u64,
}

impl BlockMemory {
    /// Bytes that all blocks keep, and the temporary ones of a block.
    fn of_all(&self, blocks: u64, activations: Activations) -> (u64, u64) {
        let kept = activations.kept_of(blocks as usize) as u64;
        let temporary = match kept {
            0 => self.of_recomputed,
            all if all == blocks => self.of_kept,
            // The pool has the memory of both.
            _ => self.of_kept.max(self.of_recomputed),
        };
        (blocks * self.input + kept * self.saved, temporary)
    }
}

/// Sizes of a model.
struct Sizes {
    d: u64,
    f: u64,
    q: u64,
    kv: u64,
    v: u64,
    blocks: u64,
    saved: SavedElements,
    /// Queries and keys before their norms, per token.
    raw: u64,
}

impl Sizes {
    fn of(model: &Architecture) -> Self {
        let saved = SavedElements::per_token(model);
        Self {
            d: model.hidden_size as u64,
            f: model.intermediate_size as u64,
            q: model.query_size() as u64,
            kv: model.kv_size() as u64,
            v: model.vocab_size as u64,
            blocks: model.num_hidden_layers as u64,
            raw: saved.raw as u64,
            saved,
        }
    }
}

/// The normalised rows of an output head, with elements of `element` bytes, and their gradient in f32.
fn normalised_head(model: &Architecture, element: u64) -> u64 {
    match model.head {
        OutputHead::Normalised => (model.vocab_size * model.hidden_size) as u64 * (element + 4),
        OutputHead::Plain | OutputHead::Tied => 0,
    }
}

/// Tokens beyond which no machine has the memory, and estimates in bytes would overflow.
const MAX_TOKENS: usize = 1 << 28;

/// Tokens of a pass, at most.
fn tokens(config: &TrainConfig) -> usize {
    config.tokens_of_pass().min(MAX_TOKENS)
}

#[cfg(test)]
mod tests {
    use spag_model::dtype::WeightDtype;

    use super::*;

    fn memory(activations: Activations, dtype: WeightDtype, tokens: usize) -> StepMemory {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/llama2-7b/config.json");
        let config = TrainConfig {
            per_device_train_batch_size: 1,
            max_length: tokens,
            bf16: dtype == WeightDtype::Bf16,
            ..TrainConfig::default()
        };
        let config = config.with_activations(activations);
        StepMemory::on_gpu(&ModelConfig::from_file(path).unwrap(), &config)
    }

    #[test]
    fn block_inputs_by_hand() {
        let memory = memory(Activations::KeepLast(0), WeightDtype::Bf16, 2 * 2048);
        // 32 blocks × 4096 tokens × 4096 × 2 bytes.
        assert_eq!(memory.kept, 1 << 30);
        // 4096 × (9·4096 + 3·4096 + 3·11008) × 2 bytes, and 4096 × 32 sums of 4 bytes.
        assert_eq!(memory.block, 673_185_792 + 524_288);
        // 4096 × 32000 × (4 + 2) bytes, and four times 4096 × 4096 × 2.
        assert_eq!(memory.head, 786_432_000 + 134_217_728);
    }

    #[test]
    fn kept_activations_of_every_block_by_hand() {
        let memory = memory(Activations::Keep, WeightDtype::Bf16, 2 * 2048);
        // 32 × (4096 × (4·4096 + 2·4096 + 2·11008) × 2 bytes + 4096 × 32 × 4).
        assert_eq!(memory.kept, 32 * (4096 * 46_592 * 2 + 524_288));
        assert_eq!(memory.block, 4096 * (11 * 4096 + 11_008) * 2);
    }

    #[test]
    fn each_kept_block_adds_its_activations() {
        let of = |count| memory(Activations::KeepLast(count), WeightDtype::Bf16, 2 * 2048);
        let none = of(0);
        for count in [1, 8, 31] {
            // 4096 × (3·4096 + 3·4096 + 2·11008) × 2 bytes, and 4096 × 32 sums of 4 bytes.
            assert_eq!(of(count).kept - none.kept, count as u64 * (4096 * 46_592 * 2 - 4096 * 4096 * 2 + 524_288));
            assert_eq!((of(count).block, of(count).head), (none.block, none.head), "{count}");
        }
        let all = memory(Activations::Keep, WeightDtype::Bf16, 2 * 2048);
        assert_eq!([32, 33].map(of), [all; 2]);
    }

    #[test]
    fn logits_are_limited_to_a_chunk() {
        // In f32 their gradients need no memory of their own.
        assert_eq!(
            memory(Activations::KeepLast(0), WeightDtype::F32, 100_000).head,
            (512 << 20) + 4 * 100_000 * 4096 * 4
        );
    }
}
