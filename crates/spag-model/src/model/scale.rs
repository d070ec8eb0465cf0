//! Scaling of embeddings.

use candle_core::{DType, Result, Tensor};
use half::bf16;

use crate::config::{Architecture, Embeddings};
use spag_ops::pool::recycle;

/// The factor of embeddings before the first block; `None` for 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmbeddingScale(Option<f32>);

impl EmbeddingScale {
    /// The factor of an architecture.
    pub(crate) fn of(model: &Architecture) -> Self {
        match model.embeddings {
            Embeddings::AsStored => Self(None),
            Embeddings::TimesSqrtHidden => Self(Some((model.hidden_size as f64).sqrt() as f32)),
        }
    }

    /// `x` times the factor, which is rounded to the number format of the weights as in transformers.
    pub(crate) fn apply(self, x: Tensor, weights: DType) -> Result<Tensor> {
        let Some(factor) = self.0 else { return Ok(x) };
        let factor = if weights == DType::BF16 { bf16::from_f32(factor).to_f32() } else { factor };
        let scaled = x.affine(f64::from(factor), 0.0)?;
        recycle(x)?;
        Ok(scaled)
    }
}
