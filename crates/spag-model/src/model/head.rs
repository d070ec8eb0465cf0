//! The output head of a training pass, which may span two layers.

use candle_core::Tensor;

use super::scale::LogitScale;
use crate::config::{Architecture, OutputHead};
use crate::error::Result;
use crate::params::{Layout, Part, Unsharded, WeightSource};
use spag_ops::cast::in_compute_dtype;
use spag_ops::kernels;
use spag_ops::pool::{self, recycle};
use spag_ops::row_norm;

/// The final norm and the output head, with the layers that hold them.
pub(super) struct Head<'a> {
    /// With the factor of logits.
    pub(super) norm: Tensor,
    /// The matrix of the product, [V, D].
    pub(super) matrix: Tensor,
    /// The stored matrix, if its rows were normalised for the product.
    stored: Option<Tensor>,
    _layers: Vec<Unsharded<'a>>,
}

impl<'a> Head<'a> {
    /// Unshards the last layer, and the embedding layer if the head is tied. Prefetches layer `next`.
    pub(super) fn new(
        weights: &'a dyn WeightSource,
        layout: &Layout,
        model: &Architecture,
        next: Option<usize>,
    ) -> Result<Self> {
        let tied = model.is_tied();
        let last = layout.layers.len().saturating_sub(1);
        let layer = Unsharded::new(weights, last, if tied { Some(0) } else { next })?;
        let norm = in_compute_dtype(&layout.required(&layer.buffer, last, &[Part::FinalNorm])?)?;
        let norm = LogitScale::of(model).fold(norm)?;
        if tied {
            let first = Unsharded::new(weights, 0, next)?;
            let matrix = layout.required(&first.buffer, 0, &[Part::Embedding])?;
            return Ok(Self { norm, matrix, stored: None, _layers: vec![layer, first] });
        }
        let matrix = layout.required(&layer.buffer, last, &[Part::Head])?;
        let (matrix, stored) = match model.head {
            OutputHead::Normalised => (row_norm::forward(&matrix)?, Some(in_compute_dtype(&matrix)?)),
            OutputHead::Plain | OutputHead::Tied => (matrix, None),
        };
        Ok(Self { norm, matrix, stored, _layers: vec![layer] })
    }

    /// Calls `backward` with the tensor that accumulates the gradient of the product's matrix, and adds the stored matrix's
    /// gradient to `gradient`.
    pub(super) fn backward(
        &self,
        gradient: &Tensor,
        backward: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let Some(stored) = &self.stored else { return backward(gradient) };
        let dmatrix = zeros(stored.dims2()?, gradient)?;
        let dinput = backward(&dmatrix)?;
        row_norm::backward(stored, &dmatrix, gradient)?;
        recycle(dmatrix)?;
        Ok(dinput)
    }
}

/// Zeros [rows, columns], with the device and number format of `like`.
pub(super) fn zeros((rows, columns): (usize, usize), like: &Tensor) -> Result<Tensor> {
    if kernels::of(like.device())?.is_some() {
        return Ok(Tensor::zeros((rows, columns), like.dtype(), like.device())?);
    }
    Ok(pool::zeros(rows, columns)?)
}
