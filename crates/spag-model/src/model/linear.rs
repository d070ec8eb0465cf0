//! The seam of linear layers: what the passes ask of a weight, whatever it is stored as.

use candle_core::{DType, Result, Tensor};

use spag_ops::cast::in_compute_dtype;
use spag_ops::matmul::{self, Arithmetic};
use spag_ops::packed_linear::PackedWeight;
use spag_ops::rms_norm::RmsNorm;
use spag_ops::{bias, rms_norm};

/// The weight of a linear layer, O outputs by I inputs. The passes use these functions only, so another kind of weight, such as
/// a quantised one or one with an adapter, is another variant.
pub(crate) enum LinearWeight {
    /// A matrix [O, I] in f32 or bf16.
    Dense(Tensor),
}

impl LinearWeight {
    /// y = [residual +] x·Wᵀ. `x` [N, I] → [N, O]; `residual` [N, O].
    pub(crate) fn forward(&self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        match (self, residual) {
            (Self::Dense(weight), None) => matmul::linear(x, weight),
            (Self::Dense(weight), Some(residual)) => matmul::linear_add(residual, x, weight),
        }
    }

    /// The gradient of the input [N, I] of layers that share it, from those of their outputs: Σ dy·W, one after the other.
    pub(crate) fn backward_input(layers: &[(&Tensor, &Self)]) -> Result<Tensor> {
        let dense: Vec<(&Tensor, &Tensor)> = layers.iter().map(|(dy, Self::Dense(weight))| (*dy, weight)).collect();
        matmul::linear_backward_input(&dense)
    }

    /// Adds the gradient of the weight to `gradient`, f32: dW += dyᵀ·x.
    pub(crate) fn backward_weight(&self, dy: &Tensor, x: &Tensor, gradient: &Tensor) -> Result<()> {
        let Self::Dense(weight) = self;
        matmul::linear_backward_weight(dy, x, gradient, Arithmetic::of(weight))
    }

    /// `x` [N, I] normalised for a product with this weight.
    pub(crate) fn normed(&self, x: &Tensor, w: &Tensor, norm: RmsNorm) -> Result<Tensor> {
        let Self::Dense(weight) = self;
        rms_norm::forward_for(weight, x, w, norm)
    }

    /// The number format of activations that are saved for the backward pass.
    pub(crate) fn saved_dtype(&self) -> DType {
        let Self::Dense(weight) = self;
        weight.dtype()
    }

    /// Packs weights for generation: in the memory that they share, or in memory of their own.
    pub(crate) fn pack(weights: &[Self], memory: PackedMemory) -> Result<Vec<PackedWeight>> {
        let dense: Vec<Tensor> = weights.iter().map(|Self::Dense(weight)| weight.clone()).collect();
        match memory {
            PackedMemory::OfWeights => PackedWeight::in_place(&dense),
            PackedMemory::Own => dense.iter().map(PackedWeight::new).collect(),
        }
    }

    /// Packs the weight in the memory of another of the same extents.
    pub(crate) fn repack(&self, packed: &mut PackedWeight) -> Result<()> {
        let Self::Dense(weight) = self;
        packed.repack(weight)
    }
}

/// Where packed weights are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedMemory {
    /// In the memory of the weights, which become empty.
    OfWeights,
    /// In memory of their own.
    Own,
}

/// A linear layer of the training pass: a weight, and a bias if it has one.
pub(super) struct Linear {
    pub(super) weight: LinearWeight,
    pub(super) bias: Option<Tensor>,
}

/// Where the gradients of a linear layer are added, f32; `None` for parts that are frozen or absent.
pub(super) struct LinearGradient {
    pub(super) weight: Option<Tensor>,
    pub(super) bias: Option<Tensor>,
}

impl Linear {
    /// [residual +] the layer's output. `x` [N, I] → [N, O]; `residual` [N, O].
    pub(super) fn forward(&self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        let y = self.weight.forward(x, residual)?;
        if let Some(bias) = &self.bias {
            bias::add(&y, bias)?;
        }
        Ok(y)
    }

    /// Adds the gradients of weight and bias.
    pub(super) fn accumulate(&self, gradient: &LinearGradient, dy: &Tensor, x: &Tensor) -> Result<()> {
        if let Some(weight) = &gradient.weight {
            self.weight.backward_weight(dy, x, weight)?;
        }
        match &gradient.bias {
            Some(bias) => bias::backward(&in_compute_dtype(dy)?, bias),
            None => Ok(()),
        }
    }
}
