//! The matrices packed for generation, and their size when quantised.

use crate::config::{Architecture, OutputHead};
use crate::dtype::WeightDtype;
use crate::error::{Error, Result};
use spag_ops::packed_linear::PackedWeight;
use spag_ops::quantised::BlockFormat;

/// A matrix of a quantised model that is not in the requested format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplacedMatrix {
    /// The linear layers, e.g. `down_proj`.
    pub name: &'static str,
    /// Their input size.
    pub inputs: usize,
    /// Its actual format; `None` for that of the parameters.
    pub format: Option<BlockFormat>,
}

/// Checks that the model has a matrix that can be quantised.
pub(crate) fn check_inputs(architecture: &Architecture, format: BlockFormat) -> Result<()> {
    let matrices = Matrices::of(architecture).all();
    if matrices.iter().any(|matrix| format.of_inputs(matrix.inputs).is_some()) {
        return Ok(());
    }
    let (hidden, intermediate) = (architecture.hidden_size, architecture.intermediate_size);
    Err(Error::Generation(format!(
        "no matrix can be quantised to {format}: hidden_size {hidden} and intermediate_size {intermediate} are no multiples of \
         {}; generate without --quantize",
        BlockFormat::BLOCK
    )))
}

/// The extents of a packed matrix.
#[derive(Clone, Copy)]
struct Matrix {
    name: &'static str,
    outputs: usize,
    inputs: usize,
}

/// The matrices of a model.
pub(crate) struct Matrices {
    block: [Matrix; 4],
    head: Matrix,
    layers: usize,
    head_kind: OutputHead,
}

impl Matrices {
    /// The matrices of an architecture.
    pub(crate) fn of(model: &Architecture) -> Self {
        let matrix = |name, outputs, inputs| Matrix { name, outputs, inputs };
        let (d, mlp) = (model.hidden_size, model.intermediate_size);
        Self {
            block: [
                matrix("q_proj, k_proj, v_proj", model.query_size() + 2 * model.kv_size(), d),
                matrix("o_proj", d, model.query_size()),
                matrix("gate_proj, up_proj", 2 * mlp, d),
                matrix("down_proj", d, mlp),
            ],
            head: matrix("lm_head", model.vocab_size, d),
            layers: model.num_hidden_layers,
            head_kind: model.head,
        }
    }

    /// Those that are not in the model's quantisation format.
    pub(crate) fn replaced(&self, format: BlockFormat) -> Vec<ReplacedMatrix> {
        let replaced = self.all().into_iter().filter(|matrix| format.of_inputs(matrix.inputs) != Some(format));
        let named = |Matrix { name, inputs, .. }| ReplacedMatrix { name, inputs, format: format.of_inputs(inputs) };
        replaced.map(named).collect()
    }

    fn all(&self) -> [Matrix; 5] {
        let [qkv, o, gate_up, down] = self.block;
        [qkv, o, gate_up, down, self.head]
    }

    fn block_bytes(&self, format: BlockFormat, dtype: WeightDtype) -> u64 {
        self.block.iter().fold(0, |sum, matrix| matrix.bytes(format, dtype).saturating_add(sum))
    }

    /// Bytes of all matrices, quantised or not.
    pub(crate) fn bytes(&self, format: BlockFormat, dtype: WeightDtype) -> u64 {
        let blocks = self.block_bytes(format, dtype).saturating_mul(self.layers as u64);
        blocks.saturating_add(self.head_bytes(format, dtype))
    }

    /// Extra bytes for packing a model whose layers are freed as they are packed.
    pub(crate) fn packing_bytes(&self, format: BlockFormat, dtype: WeightDtype) -> u64 {
        self.block_bytes(format, dtype).max(self.head_bytes(format, dtype))
    }

    /// Bytes of the largest quantised matrix in number format `dtype`, the buffer into which kernels dequantise it for products
    /// of many rows.
    pub(crate) fn dequantised_bytes(&self, format: BlockFormat, dtype: WeightDtype) -> u64 {
        let quantised = self.all().into_iter().filter(|matrix| format.of_inputs(matrix.inputs).is_some());
        quantised.map(|matrix| matrix.kept_bytes(dtype)).max().unwrap_or(0)
    }

    /// Bytes of the head, and of the normalised matrix from which it is packed.
    fn head_bytes(&self, format: BlockFormat, dtype: WeightDtype) -> u64 {
        let normalised = if self.head_kind == OutputHead::Normalised { self.head.kept_bytes(dtype) } else { 0 };
        self.head.bytes(format, dtype).saturating_add(normalised)
    }
}

impl Matrix {
    fn bytes(self, format: BlockFormat, dtype: WeightDtype) -> u64 {
        match format.of_inputs(self.inputs) {
            Some(format) => PackedWeight::quantised_bytes(format, self.outputs, self.inputs),
            None => self.kept_bytes(dtype),
        }
    }

    fn kept_bytes(self, dtype: WeightDtype) -> u64 {
        (self.outputs as u64).saturating_mul(self.inputs as u64).saturating_mul(dtype.bytes() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ModelConfig;

    #[test]
    fn bytes_are_those_of_blocks_and_of_matrices_that_are_kept() {
        let config: ModelConfig = serde_json::from_value(serde_json::json!({
            "hidden_size": 64, "intermediate_size": 40, "vocab_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "max_position_embeddings": 64
        }))
        .unwrap();
        let matrices = Matrices::of(&config.architecture);
        // qkv, o and gate_up have 64 inputs: two blocks of 34 bytes per row, rows padded to 16; down, with 40
        // inputs, is f32.
        let block = (192 + 64 + 80) * 2 * 34 + 64 * 40 * 4;
        let head = 48 * 2 * 34;
        assert_eq!(matrices.bytes(BlockFormat::Q8_0, WeightDtype::F32), 2 * block + head);
        assert_eq!(matrices.packing_bytes(BlockFormat::Q8_0, WeightDtype::F32), block);
        assert_eq!(matrices.dequantised_bytes(BlockFormat::Q8_0, WeightDtype::Bf16), 192 * 64 * 2);
        let block = (192 + 64 + 80) * 2 * 18 + 64 * 40 * 2;
        assert_eq!(matrices.packing_bytes(BlockFormat::Q4_0, WeightDtype::Bf16), block);
    }
}
