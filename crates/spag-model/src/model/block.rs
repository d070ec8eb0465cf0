//! One block: x + attention(norm(x)), then x + mlp(norm(x)), with norms where the architecture has them. Shared by training
//! and generation.

use candle_core::{Result, Tensor};

use crate::config::Norms;
use crate::params::Part;
use spag_ops::pool::recycle;

/// A tensor after its last use in a block's forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Used {
    /// The block's input, [N, D].
    Input,
    /// The output of attention before the output projection, [N, query size].
    Attended,
    /// The sum between attention and MLP, [N, D].
    Middle,
}

/// The operations of a pass over one block. The training pass saves activations for its backward pass; the
/// generation pass saves nothing, and its attention reads and writes the KV cache.
pub(crate) trait BlockPass {
    /// RMSNorm of `x` [N, D] before attention or MLP, with the weight [`Part::AttentionNorm`] or [`Part::MlpNorm`].
    fn norm(&mut self, weight: Part, x: &Tensor) -> Result<Tensor>;
    /// Attention of its input [N, D] → [N, query size].
    fn attend(&mut self, input: &Tensor) -> Result<Tensor>;
    /// The output projection of the attended values, added to `residual` if given: [N, D]. A pass that recycles
    /// [used](Self::used) tensors may overwrite `residual` with the sum.
    fn project(&mut self, attended: &Tensor, residual: Option<&Tensor>) -> Result<Tensor>;
    /// The MLP's activated values of its input: [N, D] → [N, F].
    fn activate(&mut self, input: &Tensor) -> Result<Tensor>;
    /// The down projection of the activated values, added to `residual` as in [`project`](Self::project): [N, D].
    fn down(&mut self, activated: &Tensor, residual: Option<&Tensor>) -> Result<Tensor>;
    /// `residual` plus the RMSNorm of the output of attention or MLP, with the weight [`Part::AttentionPostNorm`] or
    /// [`Part::MlpPostNorm`], all [N, D].
    fn add_normed(&mut self, weight: Part, output: Tensor, residual: &Tensor) -> Result<Tensor>;
    /// Saves a tensor for the backward pass, or recycles it.
    fn used(&mut self, which: Used, tensor: Tensor) -> Result<()>;
}

/// The block's output for its input `x`, both [N, D]. Without a norm after it, a product adds the residual itself.
pub(crate) fn forward(x: Tensor, norms: Norms, pass: &mut impl BlockPass) -> Result<Tensor> {
    let middle = attention(x, norms, pass)?;
    mlp(middle, norms, pass)
}

/// The sum between attention and MLP.
pub(crate) fn attention(x: Tensor, norms: Norms, pass: &mut impl BlockPass) -> Result<Tensor> {
    let attended = match norms.before() {
        true => consumed(pass.norm(Part::AttentionNorm, &x)?, |normed| pass.attend(normed))?,
        false => pass.attend(&x)?,
    };
    let middle = match norms.after() {
        true => {
            let output = pass.project(&attended, None)?;
            pass.add_normed(Part::AttentionPostNorm, output, &x)?
        }
        false => pass.project(&attended, Some(&x))?,
    };
    pass.used(Used::Attended, attended)?;
    pass.used(Used::Input, x)?;
    Ok(middle)
}

/// The block's output for the sum between attention and MLP.
pub(crate) fn mlp(middle: Tensor, norms: Norms, pass: &mut impl BlockPass) -> Result<Tensor> {
    let activated = match norms.before() {
        true => consumed(pass.norm(Part::MlpNorm, &middle)?, |normed| pass.activate(normed))?,
        false => pass.activate(&middle)?,
    };
    let y = match norms.after() {
        true => {
            let output = pass.down(&activated, None)?;
            pass.add_normed(Part::MlpPostNorm, output, &middle)?
        }
        false => pass.down(&activated, Some(&middle))?,
    };
    recycle(activated)?;
    pass.used(Used::Middle, middle)?;
    Ok(y)
}

/// Applies `f` to a tensor and recycles the tensor.
pub(crate) fn consumed<R>(tensor: Tensor, f: impl FnOnce(&Tensor) -> Result<R>) -> Result<R> {
    let result = f(&tensor)?;
    recycle(tensor)?;
    Ok(result)
}
