//! The output head, packed for generation.

use candle_core::{DType, Result, Tensor};

use super::memory::{PackedMemory, packed};
use crate::config::OutputHead;
use spag_ops::cast::converted;
use spag_ops::kernels::SumOrder;
use spag_ops::packed_linear::{self, PackedWeight};
use spag_ops::row_norm;

/// The output head: a packed matrix, [V, D], with normalised rows if the architecture requires it.
pub(crate) struct Head {
    kind: OutputHead,
    weight: PackedWeight,
}

impl Head {
    /// A head with a packed matrix.
    pub(super) fn of_weight(kind: OutputHead, weight: PackedWeight) -> Self {
        Self { kind, weight }
    }

    /// Packs the matrix of a head of this [`kind`](OutputHead), in place if `memory` allows it.
    pub(super) fn new(kind: OutputHead, matrix: Tensor, memory: PackedMemory) -> Result<Self> {
        let device = matrix.device().clone();
        let packed = packed(&[matrix], memory, &device)?.pop();
        Ok(Self { kind, weight: packed.ok_or_else(|| candle_core::Error::msg("no output head"))? })
    }

    /// Whether the head is the embedding.
    pub(crate) fn is_tied(&self) -> bool {
        self.kind == OutputHead::Tied
    }

    /// Repacks another stored matrix [V, D] in the same memory. `dtype` is the number format of the engine's weights.
    pub(crate) fn refresh(&mut self, stored: &Tensor, dtype: DType) -> Result<()> {
        match self.kind {
            OutputHead::Normalised => self.weight.repack(&row_norm::forward(&converted(stored, dtype)?)?),
            OutputHead::Plain | OutputHead::Tied => self.weight.repack(stored),
        }
    }

    /// Vocabulary size, V.
    pub(crate) fn outputs(&self) -> usize {
        self.weight.outputs()
    }

    /// Logits [N, V] of normed outputs [N, D], in f32 for every number format.
    pub(crate) fn forward(&self, normed: &Tensor, order: SumOrder) -> Result<Tensor> {
        packed_linear::forward_f32(normed, &self.weight, order)
    }

    /// The rows of tokens, [N, D]: their embeddings, if the head is tied.
    pub(crate) fn rows(&self, ids: &[u32]) -> Result<Tensor> {
        packed_linear::rows(ids, &self.weight)
    }
}
