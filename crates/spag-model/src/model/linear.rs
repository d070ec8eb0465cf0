//! Linear layers of passes, independent of how the weight is stored.

use candle_core::{DType, Result, Tensor, bail};

use crate::params::Pair;
use spag_ops::cast::in_compute_dtype;
use spag_ops::kernels::Accumulate;
use spag_ops::matmul::{self, Arithmetic};
use spag_ops::pool::recycle;
use spag_ops::rms_norm::RmsNorm;
use spag_ops::{bias, rms_norm};

/// The weight of a linear layer with O outputs and I inputs. Passes use only these functions, so another kind of weight, e.g. a
/// quantised one, is another variant.
pub(crate) enum LinearWeight {
    /// A matrix [O, I] in f32 or bf16.
    Dense(Tensor),
    /// A frozen matrix with an adapter in the same format: W + s·B·A.
    Adapted(Tensor, Pair),
}

impl LinearWeight {
    /// The matrix W.
    fn dense(&self) -> &Tensor {
        match self {
            Self::Dense(weight) | Self::Adapted(weight, _) => weight,
        }
    }

    /// y = [residual +] x·Wᵀ. `x` [N, I] → [N, O]; `residual` [N, O].
    pub(crate) fn forward(&self, x: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        let y = match residual {
            None => matmul::linear(x, self.dense())?,
            Some(residual) => matmul::linear_add(residual, x, self.dense())?,
        };
        match self {
            Self::Dense(_) => Ok(y),
            Self::Adapted(_, pair) => {
                let sum = matmul::linear_add(&y, &pair.reduced(x)?, &pair.b)?;
                recycle(y)?;
                Ok(sum)
            }
        }
    }

    /// y += x·Wᵀ in place. `x` [N, I], `y` [N, O].
    pub(crate) fn forward_onto(&self, y: &Tensor, x: &Tensor) -> Result<()> {
        matmul::linear_onto(y, x, self.dense())?;
        match self {
            Self::Dense(_) => Ok(()),
            Self::Adapted(_, pair) => matmul::linear_onto(y, &pair.reduced(x)?, &pair.b),
        }
    }

    /// The gradient of the input [N, I] shared by several layers, given those of their outputs: Σ dy·W, added in order.
    pub(crate) fn backward_input(layers: &[(&Tensor, &Self)]) -> Result<Tensor> {
        // An adapter adds two products: dy·W + (s·dy·B)·A.
        let of_pairs = layers.iter().filter_map(|(dy, weight)| match weight {
            Self::Dense(_) => None,
            Self::Adapted(_, pair) => Some(pair.expanded_backward(dy).map(|reduced| (reduced, &pair.a))),
        });
        let reduced = of_pairs.collect::<Result<Vec<_>>>()?;
        let dense = layers.iter().map(|(dy, weight)| (*dy, weight.dense()));
        let all: Vec<(&Tensor, &Tensor)> = dense.chain(reduced.iter().map(|(reduced, a)| (reduced, *a))).collect();
        matmul::linear_backward_input(&all)
    }

    /// Adds the gradients of the weight, or writes them: dW = [dW +] dyᵀ·x, or those of the adapter's matrices, f32.
    pub(crate) fn backward_weight(&self, dy: &Tensor, x: &Tensor, gradient: &WeightGradient) -> Result<()> {
        let arithmetic = Arithmetic::of(self.dense());
        match (self, gradient) {
            (Self::Dense(_), WeightGradient::Dense(gradient, accumulate)) => {
                matmul::linear_backward_weight(dy, x, (gradient, *accumulate), arithmetic)
            }
            (Self::Adapted(_, pair), WeightGradient::Adapter(gradient)) => {
                let add = |dy: &Tensor, x: &Tensor, gradient| {
                    matmul::linear_backward_weight(dy, x, (gradient, Accumulate::Yes), arithmetic)
                };
                add(dy, &pair.reduced(x)?, &gradient.b)?;
                add(&pair.expanded_backward(dy)?, x, &gradient.a)
            }
            (_, WeightGradient::Frozen) => Ok(()),
            (Self::Dense(_), WeightGradient::Adapter(_)) | (Self::Adapted(..), WeightGradient::Dense(..)) => {
                bail!("a linear layer and its gradient are of different kinds")
            }
        }
    }

    /// `x` [N, I] normalised, as input of a product with this weight.
    pub(crate) fn normed(&self, x: &Tensor, w: &Tensor, norm: RmsNorm) -> Result<Tensor> {
        rms_norm::forward_for(self.dense(), x, w, norm)
    }

    /// The number format of activations saved for the backward pass.
    pub(crate) fn saved_dtype(&self) -> DType {
        self.dense().dtype()
    }
}

impl Pair {
    /// s·x·Aᵀ, [N, r].
    fn reduced(&self, x: &Tensor) -> Result<Tensor> {
        matmul::linear(x, &self.a)? * self.scale
    }

    /// s·dy·B, [N, r].
    fn expanded_backward(&self, dy: &Tensor) -> Result<Tensor> {
        matmul::linear_backward_input(&[(dy, &self.b)])? * self.scale
    }
}

/// The residual that the output of a linear layer is added to.
pub(super) enum Residual<'a> {
    None,
    /// A tensor that is still needed.
    Kept(&'a Tensor),
    /// A copy, which is overwritten by the sum.
    Copied(Tensor),
}

impl<'a> Residual<'a> {
    /// A residual, with its copy if there is one.
    pub(super) fn of(residual: Option<&'a Tensor>, copy: Option<Tensor>) -> Self {
        match (residual, copy) {
            (None, _) => Self::None,
            (Some(_), Some(copy)) => Self::Copied(copy),
            (Some(residual), None) => Self::Kept(residual),
        }
    }
}

/// A linear layer of the training pass: a weight and an optional bias.
pub(super) struct Linear {
    pub(super) weight: LinearWeight,
    pub(super) bias: Option<Tensor>,
}

/// Accumulators for the gradients of a linear layer, f32.
pub(super) struct LinearGradient {
    pub(super) weight: WeightGradient,
    /// `None` for a bias that is frozen or absent.
    pub(super) bias: Option<Tensor>,
}

/// Accumulators for the gradients of a weight.
pub(crate) enum WeightGradient {
    /// None.
    Frozen,
    /// A matrix [O, I], which is added to or written.
    Dense(Tensor, Accumulate),
    /// Those of its adapter's matrices; the scale is not used.
    Adapter(Pair),
}

impl Linear {
    /// [residual +] the layer's output. `x` [N, I] → [N, O]; `residual` [N, O], kept or overwritten.
    pub(super) fn forward(&self, x: &Tensor, residual: Residual<'_>) -> Result<Tensor> {
        let y = match residual {
            Residual::None => self.weight.forward(x, None)?,
            Residual::Kept(residual) => self.weight.forward(x, Some(residual))?,
            Residual::Copied(copy) => {
                self.weight.forward_onto(&copy, x)?;
                copy
            }
        };
        if let Some(bias) = &self.bias {
            bias::add(&y, bias)?;
        }
        Ok(y)
    }

    /// Adds the gradients of weight and bias.
    pub(super) fn accumulate(&self, gradient: &LinearGradient, dy: &Tensor, x: &Tensor) -> Result<()> {
        self.weight.backward_weight(dy, x, &gradient.weight)?;
        match &gradient.bias {
            Some(bias) => bias::backward(&in_compute_dtype(dy)?, bias),
            None => Ok(()),
        }
    }
}
