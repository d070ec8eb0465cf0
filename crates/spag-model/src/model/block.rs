//! One block: its tensors, and x + attention(norm(x)), then x + mlp(norm(x)). The same description serves the layout of
//! parameters, training and generation.

use candle_core::{Result, Tensor};

use crate::config::{Architecture, HeadNorm, Projections};
use crate::params::Part;
use spag_ops::pool::recycle;

/// A tensor of a checkpoint, by its name inside the block, and its parts from the first row to the last.
type BlockTensor = (&'static str, Vec<(Part, Vec<usize>)>);

/// The tensors of a block, in the order of the parameters. Parts with the same input are adjacent, weights and biases apart,
/// so that generation can multiply them as one matrix.
pub(crate) fn tensors(model: &Architecture) -> Vec<BlockTensor> {
    let (d, f, dim) = (model.hidden_size, model.intermediate_size, model.heads.dim);
    let (q, kv) = (model.query_size(), model.kv_size());
    let one = |name, part, shape: &[usize]| (name, vec![(part, shape.to_vec())]);
    let mut all = vec![one("input_layernorm.weight", Part::AttentionNorm, &[d])];
    match model.projections {
        Projections::Split => all.extend([
            one("self_attn.q_proj.weight", Part::Query, &[q, d]),
            one("self_attn.k_proj.weight", Part::Key, &[kv, d]),
            one("self_attn.v_proj.weight", Part::Value, &[kv, d]),
        ]),
        Projections::Packed => {
            let rows = [(Part::Query, q), (Part::Key, kv), (Part::Value, kv)];
            all.push(("self_attn.W_pack.weight", rows.map(|(part, rows)| (part, vec![rows, d])).to_vec()));
        }
    }
    if model.biases.qkv {
        all.extend([
            one("self_attn.q_proj.bias", Part::QueryBias, &[q]),
            one("self_attn.k_proj.bias", Part::KeyBias, &[kv]),
            one("self_attn.v_proj.bias", Part::ValueBias, &[kv]),
        ]);
    }
    if model.head_norm == HeadNorm::QueriesAndKeys {
        all.push(one("self_attn.q_norm.weight", Part::QueryNorm, &[dim]));
        all.push(one("self_attn.k_norm.weight", Part::KeyNorm, &[dim]));
    }
    all.push(one("self_attn.o_proj.weight", Part::Output, &[d, q]));
    if model.biases.output {
        all.push(one("self_attn.o_proj.bias", Part::OutputBias, &[d]));
    }
    all.push(one("post_attention_layernorm.weight", Part::MlpNorm, &[d]));
    all.push(one("mlp.gate_proj.weight", Part::Gate, &[f, d]));
    all.push(one("mlp.up_proj.weight", Part::Up, &[f, d]));
    if model.biases.mlp {
        all.push(one("mlp.gate_proj.bias", Part::GateBias, &[f]));
        all.push(one("mlp.up_proj.bias", Part::UpBias, &[f]));
    }
    all.push(one("mlp.down_proj.weight", Part::Down, &[d, f]));
    if model.biases.mlp {
        all.push(one("mlp.down_proj.bias", Part::DownBias, &[d]));
    }
    all
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
    /// RMSNorm of `x` [N, D], with the weight [`Part::AttentionNorm`] or [`Part::MlpNorm`].
    fn norm(&self, weight: Part, x: &Tensor) -> Result<Tensor>;
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
    let normed = pass.norm(Part::AttentionNorm, &x)?;
    let attended = pass.attend(normed)?;
    let middle = pass.project(&attended, &x)?;
    pass.used(Used::Attended, attended)?;
    pass.used(Used::Input, x)?;
    let normed = pass.norm(Part::MlpNorm, &middle)?;
    let activated = pass.activate(normed)?;
    let y = pass.down(&activated, &middle)?;
    recycle(activated)?;
    pass.used(Used::Middle, middle)?;
    Ok(y)
}
