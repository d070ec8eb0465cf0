//! The output head, packed for generation.

use candle_core::{DType, Result, Tensor};

use crate::config::OutputHead;
use crate::model::Model;
use crate::params::Part;
use spag_ops::kernels;
use spag_ops::packed_linear::{self, PackedWeight};
use spag_ops::row_norm;

/// The output head: a packed matrix, [V, D].
pub(super) struct Head {
    kind: OutputHead,
    weight: PackedWeight,
    /// The lengths of the rows, if a head with normalised rows is packed as it is stored: dividing a few logits by them takes
    /// less memory than a normalised matrix in f32.
    lengths: Option<Vec<f32>>,
}

impl Head {
    /// Packs the head of a model: in its own memory if nothing else uses the parameters.
    pub(super) fn new(model: &Model) -> crate::Result<Self> {
        let (kind, parameters) = (model.config().architecture.head, model.parameters());
        let pack = |weight: Tensor| match parameters.is_shared() {
            true => PackedWeight::new(&weight),
            false => PackedWeight::in_place(&[weight])?.pop().ok_or_else(|| candle_core::Error::msg("no output head")),
        };
        if kind != OutputHead::Normalised || kernels::of(parameters.device())?.is_some() {
            return Ok(Self { kind, weight: pack(model.head()?)?, lengths: None });
        }
        let stored = model.stored(parameters.layout().layers.len().saturating_sub(1), Part::Head)?;
        let lengths = row_norm::lengths(&stored)?;
        Ok(Self { kind, weight: pack(stored)?, lengths: Some(lengths) })
    }

    /// Whether the head is the embedding.
    pub(super) fn is_tied(&self) -> bool {
        self.kind == OutputHead::Tied
    }

    /// Packs another stored matrix [V, D] in the memory of this one. `dtype` is the number format of the engine's weights.
    pub(super) fn refresh(&mut self, stored: &Tensor, dtype: DType) -> Result<()> {
        match &mut self.lengths {
            Some(lengths) => *lengths = row_norm::lengths_in(stored, dtype)?,
            None if self.kind == OutputHead::Normalised => return self.weight.repack(&row_norm::forward(stored)?),
            None => {}
        }
        self.weight.repack(stored)
    }

    /// Vocabulary size, V.
    pub(super) fn outputs(&self) -> usize {
        self.weight.outputs()
    }

    /// Logits [N, V] of normed outputs [N, D].
    pub(super) fn forward(&self, normed: &Tensor) -> Result<Tensor> {
        self.scaled(packed_linear::forward(normed, &self.weight, None)?)
    }

    /// As [`Head::forward`], in f32 for every number format.
    pub(super) fn forward_f32(&self, normed: &Tensor) -> Result<Tensor> {
        self.scaled(packed_linear::forward_f32(normed, &self.weight)?)
    }

    fn scaled(&self, logits: Tensor) -> Result<Tensor> {
        if let Some(lengths) = &self.lengths {
            row_norm::divide_columns(&logits, lengths)?;
        }
        Ok(logits)
    }

    /// The rows of tokens, [N, D]: their embeddings, if the head is the embedding.
    pub(super) fn rows(&self, ids: &[u32]) -> Result<Tensor> {
        packed_linear::rows(ids, &self.weight)
    }
}
