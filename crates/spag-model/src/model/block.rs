//! One block: x + attention(norm(x)), then x + mlp(norm(x)). The same description serves training and generation.

use candle_core::{Result, Tensor};

use crate::ops::pool::recycle;

/// The two norms of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Norm {
    /// Before attention.
    Input,
    /// Before the MLP.
    Post,
}

/// A tensor that a block has used for the last time in its forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Used {
    /// The block's input, [N, D].
    Input,
    /// The output of attention before its projection, [N, query size].
    Attended,
    /// The sum between attention and MLP, [N, D].
    Middle,
}

/// How a pass computes the parts of one block. The training pass keeps what its backward pass reads; the pass of
/// generation keeps nothing, and its attention reads and writes the KV cache.
pub(crate) trait BlockPass {
    /// RMSNorm of `x` [N, D].
    fn norm(&self, norm: Norm, x: &Tensor) -> Result<Tensor>;
    /// Attention of the normed input [N, D] → [N, query size].
    fn attend(&mut self, normed: Tensor) -> Result<Tensor>;
    /// `residual` plus the projection of the attended values: [N, D].
    fn project(&self, attended: &Tensor, residual: &Tensor) -> Result<Tensor>;
    /// SwiGLU of the normed middle [N, D] → [N, F].
    fn activate(&mut self, normed: Tensor) -> Result<Tensor>;
    /// `residual` plus the down projection of the activated values: [N, D].
    fn down(&self, activated: &Tensor, residual: &Tensor) -> Result<Tensor>;
    /// Keeps a tensor for the backward pass, or recycles it.
    fn used(&mut self, which: Used, tensor: Tensor) -> Result<()>;
}

/// The block's output for its input `x`, both [N, D].
pub(crate) fn forward(x: Tensor, pass: &mut impl BlockPass) -> Result<Tensor> {
    let normed = pass.norm(Norm::Input, &x)?;
    let attended = pass.attend(normed)?;
    let middle = pass.project(&attended, &x)?;
    pass.used(Used::Attended, attended)?;
    pass.used(Used::Input, x)?;
    let normed = pass.norm(Norm::Post, &middle)?;
    let activated = pass.activate(normed)?;
    let y = pass.down(&activated, &middle)?;
    recycle(activated)?;
    pass.used(Used::Middle, middle)?;
    Ok(y)
}
