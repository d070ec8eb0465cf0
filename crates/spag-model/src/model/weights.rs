//! The tensors of a block: its weights, or their gradients.

use candle_core::{DType, Result, Tensor};

use crate::error::Error;
use crate::params::{Layout, Part};
use spag_ops::cast::{in_compute_dtype, narrowed};
use spag_ops::matmul::{Arithmetic, linear, linear_add, linear_backward_weight};
use spag_ops::{bias, rms_norm};

/// A linear layer: y = x·Wᵀ, plus a bias if it has one.
pub(super) struct Linear {
    pub(super) weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// `x` [N, I] → [N, O].
    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.with_bias(linear(x, &self.weight)?)
    }

    /// As [`Linear::forward`], added to `residual` [N, O].
    pub(super) fn forward_add(&self, residual: &Tensor, x: &Tensor) -> Result<Tensor> {
        self.with_bias(linear_add(residual, x, &self.weight)?)
    }

    fn with_bias(&self, y: Tensor) -> Result<Tensor> {
        if let Some(bias) = &self.bias {
            bias::add(&y, bias)?;
        }
        Ok(y)
    }

    /// Adds the gradients of weight and bias to `gradients`' tensors.
    pub(super) fn accumulate(&self, gradients: &Self, dy: &Tensor, x: &Tensor) -> Result<()> {
        linear_backward_weight(dy, x, &gradients.weight, Arithmetic::of(&self.weight))?;
        match &gradients.bias {
            Some(dbias) => bias::backward(&in_compute_dtype(dy)?, dbias),
            None => Ok(()),
        }
    }
}

/// The tensors of a block.
pub(super) struct BlockWeights {
    pub(super) attention_norm: Tensor,
    pub(super) q: Linear,
    pub(super) k: Linear,
    pub(super) v: Linear,
    /// Of every head of queries, and of keys.
    pub(super) head_norms: Option<(Tensor, Tensor)>,
    pub(super) o: Linear,
    pub(super) mlp_norm: Tensor,
    pub(super) gate: Linear,
    pub(super) up: Linear,
    pub(super) down: Linear,
}

impl BlockWeights {
    /// `x` [N, D] normalised by one of the two norms, as the products that read it want it.
    pub(super) fn normed(&self, part: Part, x: &Tensor, eps: f32) -> Result<Tensor> {
        let norm = if part == Part::AttentionNorm { &self.attention_norm } else { &self.mlp_norm };
        rms_norm::forward_for(&self.q.weight, x, norm, eps)
    }

    /// Activations in the number format of the weights, as they are saved. On a CPU they are computed in f32.
    pub(super) fn stored(&self, activations: Tensor) -> Result<Tensor> {
        match (activations.dtype(), self.q.weight.dtype()) {
            (DType::F32, DType::BF16) => narrowed(activations),
            _ => Ok(activations),
        }
    }

    /// Views of a layer's buffer. On a CPU, bf16 norms and biases are converted to f32.
    pub(super) fn of(buffer: &Tensor, layout: &Layout, layer: usize) -> crate::Result<Self> {
        let part = |part: Part| match layout.part(buffer, layer, part)? {
            Some(tensor) => Ok::<_, Error>(Some(in_compute_dtype(&tensor)?)),
            None => Ok(None),
        };
        let required = |name: Part| {
            part(name)?.ok_or_else(|| Error::Config(format!("the layout of layer {layer} has no {name:?}")))
        };
        let linear = |weight: Part, bias: Part| {
            Ok::<_, Error>(Linear {
                weight: super::layers::required(layout, buffer, layer, weight)?,
                bias: part(bias)?,
            })
        };
        Ok(Self {
            attention_norm: required(Part::AttentionNorm)?,
            q: linear(Part::Query, Part::QueryBias)?,
            k: linear(Part::Key, Part::KeyBias)?,
            v: linear(Part::Value, Part::ValueBias)?,
            head_norms: part(Part::QueryNorm)?.zip(part(Part::KeyNorm)?),
            o: linear(Part::Output, Part::OutputBias)?,
            mlp_norm: required(Part::MlpNorm)?,
            gate: linear(Part::Gate, Part::GateBias)?,
            up: linear(Part::Up, Part::UpBias)?,
            down: linear(Part::Down, Part::DownBias)?,
        })
    }
}
