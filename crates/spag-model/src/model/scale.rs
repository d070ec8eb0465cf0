//! Factors of embeddings, branches and logits, folded into what is computed anyway: no pass has an op for them.

use candle_core::{DType, Result, Tensor};
use half::bf16;

use crate::config::{Architecture, Embeddings};
use spag_ops::accumulate::add_into;
use spag_ops::pool::recycle;
use spag_ops::rms_norm::RmsNorm;

/// The factor of embeddings before the first block; `None` for 1.
///
/// If the outputs of attention and MLP have a factor m too, blocks compute with the residual divided by m: adding m·y to x is
/// adding y to x/m. Norms do not depend on the scale of their input, except for [ε](norm).
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmbeddingScale(Option<Factor>);

#[derive(Clone, Copy, Debug)]
enum Factor {
    /// Rounded to the number format of the weights, as in transformers' Gemma.
    Rounded(f32),
    Exact(f32),
}

impl EmbeddingScale {
    /// The factor of an architecture.
    pub(crate) fn of(model: &Architecture) -> Self {
        Self(match (model.embeddings, model.residual_scale) {
            (Embeddings::AsStored, None) => None,
            (Embeddings::AsStored, Some(branches)) => Some(Factor::Exact((1.0 / branches) as f32)),
            (Embeddings::TimesSqrtHidden, _) => Some(Factor::Rounded((model.hidden_size as f64).sqrt() as f32)),
            (Embeddings::Times(factor), branches) => Some(Factor::Exact((factor / branches.unwrap_or(1.0)) as f32)),
        })
    }

    /// `x` times the factor, for weights of this format.
    pub(crate) fn apply(self, x: Tensor, weights: DType) -> Result<Tensor> {
        let scaled = match self.0 {
            None => return Ok(x),
            Some(Factor::Rounded(factor)) => {
                let factor = if weights == DType::BF16 { bf16::from_f32(factor).to_f32() } else { factor };
                x.affine(f64::from(factor), 0.0)?
            }
            Some(Factor::Exact(factor)) => affine(&x, factor, 0.0)?,
        };
        recycle(x)?;
        Ok(scaled)
    }
}

/// The constants of an architecture's norms, for a residual divided by the factor of branches.
pub(super) fn norm(model: &Architecture) -> RmsNorm {
    let branches = model.residual_scale.unwrap_or(1.0);
    RmsNorm { eps: (model.rms_norm_eps / (branches * branches)) as f32, offset: model.norm_weights.offset() }
}

/// The factor of logits, which the final norm is multiplied by; `None` for 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogitScale(Option<LogitFactor>);

#[derive(Clone, Copy, Debug)]
struct LogitFactor {
    factor: f32,
    /// Of the norm's weights.
    offset: f32,
}

impl LogitScale {
    /// The factor of an architecture.
    pub(crate) fn of(model: &Architecture) -> Self {
        let factor = |divisor: f64| LogitFactor { factor: (1.0 / divisor) as f32, offset: model.norm_weights.offset() };
        Self(model.logit_divisor.map(factor))
    }

    /// The weight of the final norm, `[D]`, with the factor.
    pub(crate) fn fold(self, norm: Tensor) -> Result<Tensor> {
        match self.0 {
            None => Ok(norm),
            Some(LogitFactor { factor, offset }) => affine(&norm, factor, offset * factor - offset),
        }
    }

    /// Calls `backward` with the tensor that accumulates the gradient of the weight with the factor, and adds the gradient of the
    /// weight to `gradient`, f32.
    pub(super) fn backward(
        self,
        gradient: &Tensor,
        backward: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let Some(LogitFactor { factor, .. }) = self.0 else { return backward(gradient) };
        let folded = gradient.zeros_like()?;
        let dinput = backward(&folded)?;
        add_into(&affine(&folded, factor, 0.0)?, gradient)?;
        Ok(dinput)
    }
}

/// `x` · factor + addend, computed in f32: candle would round the factor to the format of `x`.
fn affine(x: &Tensor, factor: f32, addend: f32) -> Result<Tensor> {
    x.to_dtype(DType::F32)?.affine(f64::from(factor), f64::from(addend))?.to_dtype(x.dtype())
}
