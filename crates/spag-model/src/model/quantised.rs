//! Models whose matrices engines quantise.

use super::Model;
use crate::checkpoint::WeightDtype;
use crate::config::{Architecture, OutputHead};
use crate::error::{Error, Result};
use spag_ops::kernels;
use spag_ops::packed_linear::PackedWeight;
use spag_ops::quantised::BlockFormat;

impl Model {
    /// The model, for engines that quantise the matrices of its blocks and its output head when they pack them. Embeddings, norms,
    /// biases, and matrices whose input size 32 does not divide ([`Model::kept_matrices`]) keep the number format of the parameters, which
    /// stay as they are: all passes but those of engines compute with them.
    ///
    /// # Errors
    /// A model on a GPU, or one without a matrix that can be quantised.
    pub fn quantised(self, format: BlockFormat) -> Result<Self> {
        if kernels::of(self.parameters.device())?.is_some() {
            return Err(Error::Generation(format!(
                "weights are quantised to {format} on a CPU only; use --device cpu"
            )));
        }
        let architecture = &self.config().architecture;
        let matrices = Matrices::of(architecture).all();
        if !matrices.iter().any(|matrix| format.of_inputs(matrix.inputs).is_some()) {
            let (hidden, intermediate) = (architecture.hidden_size, architecture.intermediate_size);
            return Err(Error::Generation(format!(
                "no matrix can be quantised to {format}: hidden_size {hidden} and intermediate_size {intermediate} are no \
                 multiples of {}; generate without --quantize",
                BlockFormat::BLOCK
            )));
        }
        Ok(Self { quantised: Some(format), ..self })
    }

    /// What engines quantise the matrices to, if they do.
    pub fn block_format(&self) -> Option<BlockFormat> {
        self.quantised
    }

    /// The matrices that engines do not quantise, since 32 does not divide their input size, as `down_proj (172)`. Empty if the
    /// model is not [quantised](Model::quantised).
    pub fn kept_matrices(&self) -> Vec<String> {
        let Some(format) = self.quantised else { return Vec::new() };
        let matrices = Matrices::of(&self.config().architecture).all().into_iter();
        let kept = matrices.filter(|matrix| format.of_inputs(matrix.inputs).is_none());
        kept.map(|matrix| format!("{} ({})", matrix.name, matrix.inputs)).collect()
    }
}

/// The extents of a matrix that engines pack.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
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
    /// Those of an architecture.
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

    fn all(&self) -> [Matrix; 5] {
        let [qkv, o, gate_up, down] = self.block;
        [qkv, o, gate_up, down, self.head]
    }

    fn block_bytes(&self, format: BlockFormat, dtype: WeightDtype) -> u64 {
        self.block.iter().fold(0, |sum, matrix| matrix.bytes(format, dtype).saturating_add(sum))
    }

    /// Bytes of all, quantised or kept.
    pub(crate) fn bytes(&self, format: BlockFormat, dtype: WeightDtype) -> u64 {
        let blocks = self.block_bytes(format, dtype).saturating_mul(self.layers as u64);
        blocks.saturating_add(self.head_bytes(format, dtype))
    }

    /// Bytes that packing takes beside a model of which each layer is freed when it is packed.
    pub(crate) fn packing_bytes(&self, format: BlockFormat, dtype: WeightDtype) -> u64 {
        self.block_bytes(format, dtype).max(self.head_bytes(format, dtype))
    }

    /// Bytes of the head, and of the normalised matrix that it is made of.
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

    fn model(hidden: usize, intermediate: usize) -> Model {
        let config: ModelConfig = serde_json::from_value(serde_json::json!({
            "hidden_size": hidden, "intermediate_size": intermediate, "vocab_size": 48, "num_hidden_layers": 2,
            "num_attention_heads": 2, "max_position_embeddings": 64
        }))
        .unwrap();
        Model::init(&config, 1).unwrap()
    }

    #[test]
    fn bytes_are_those_of_blocks_and_of_matrices_that_are_kept() {
        let matrices = Matrices::of(&model(64, 40).config().architecture);
        // qkv, o and gate_up of 64 inputs are two blocks of 34 bytes a row, rows padded to 16; down, of 40, is f32.
        let block = (192 + 64 + 80) * 2 * 34 + 64 * 40 * 4;
        let head = 48 * 2 * 34;
        assert_eq!(matrices.bytes(BlockFormat::Q8_0, WeightDtype::F32), 2 * block + head);
        assert_eq!(matrices.packing_bytes(BlockFormat::Q8_0, WeightDtype::F32), block);
        let block = (192 + 64 + 80) * 2 * 18 + 64 * 40 * 2;
        assert_eq!(matrices.packing_bytes(BlockFormat::Q4_0, WeightDtype::Bf16), block);
    }

    #[test]
    fn kept_matrices_are_named_and_a_model_of_them_alone_is_refused() {
        let quantised = |hidden, intermediate| model(hidden, intermediate).quantised(BlockFormat::Q4_0);
        assert!(model(64, 40).kept_matrices().is_empty());
        assert_eq!(quantised(64, 40).unwrap().kept_matrices(), ["down_proj (40)"]);
        assert!(quantised(64, 96).unwrap().kept_matrices().is_empty());
        let error = quantised(40, 72).unwrap_err().to_string();
        assert!(error.contains("hidden_size 40 and intermediate_size 72 are no multiples of 32"), "{error}");
    }
}
