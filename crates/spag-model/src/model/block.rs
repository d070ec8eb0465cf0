//! One block: its tensors, and x + attention(norm(x)), then x + mlp(norm(x)), with norms where the architecture has them.
//! The same description serves the layout of parameters, training and generation.

use candle_core::{Result, Tensor};

use crate::config::{Architecture, HeadNorm, Norms, Projections};
use crate::params::Part;
use spag_ops::pool::recycle;

/// A tensor of a checkpoint, by its name inside the block, and its parts from the first row to the last.
type BlockTensor = (&'static str, Vec<(Part, Vec<usize>)>);

/// The tensors of a block, in the order of the parameters. Parts with the same input are adjacent, weights and biases apart,
/// so that they can be multiplied as one matrix.
pub(crate) fn tensors(model: &Architecture) -> Vec<BlockTensor> {
    let (d, f) = (model.hidden_size, model.intermediate_size);
    let (q, kv) = (model.query_size(), model.kv_size());
    let one = |name, part, shape: &[usize]| (name, vec![(part, shape.to_vec())]);
    let mut all = Vec::new();
    if model.norms.before() {
        all.push(one("input_layernorm.weight", Part::AttentionNorm, &[d]));
    }
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
    let of_norms = match model.head_norm {
        HeadNorm::None => None,
        HeadNorm::QueriesAndKeys => Some((model.heads.dim, model.heads.dim)),
        HeadNorm::WholeWidth => Some((q, kv)),
    };
    if let Some((of_queries, of_keys)) = of_norms {
        all.push(one("self_attn.q_norm.weight", Part::QueryNorm, &[of_queries]));
        all.push(one("self_attn.k_norm.weight", Part::KeyNorm, &[of_keys]));
    }
    all.push(one("self_attn.o_proj.weight", Part::Output, &[d, q]));
    if model.biases.output {
        all.push(one("self_attn.o_proj.bias", Part::OutputBias, &[d]));
    }
    match model.norms {
        Norms::Before => all.push(one("post_attention_layernorm.weight", Part::MlpNorm, &[d])),
        Norms::After => all.push(one("post_attention_layernorm.weight", Part::AttentionPostNorm, &[d])),
        Norms::BeforeAndAfter => all.extend([
            one("post_attention_layernorm.weight", Part::AttentionPostNorm, &[d]),
            one("pre_feedforward_layernorm.weight", Part::MlpNorm, &[d]),
        ]),
    }
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
    if model.norms.after() {
        all.push(one("post_feedforward_layernorm.weight", Part::MlpPostNorm, &[d]));
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
    /// RMSNorm of `x` [N, D] before attention or MLP, with the weight [`Part::AttentionNorm`] or [`Part::MlpNorm`].
    fn norm(&mut self, weight: Part, x: &Tensor) -> Result<Tensor>;
    /// Attention of its input [N, D] → [N, query size].
    fn attend(&mut self, input: &Tensor) -> Result<Tensor>;
    /// The projection of the attended values, added to `residual` if there is one: [N, D]. A pass that recycles what is
    /// [used](Self::used) may overwrite `residual` with the sum.
    fn project(&mut self, attended: &Tensor, residual: Option<&Tensor>) -> Result<Tensor>;
    /// The activated values of the MLP's input: [N, D] → [N, F].
    fn activate(&mut self, input: &Tensor) -> Result<Tensor>;
    /// The down projection of the activated values, added to `residual` as in [`project`](Self::project): [N, D].
    fn down(&mut self, activated: &Tensor, residual: Option<&Tensor>) -> Result<Tensor>;
    /// `residual` plus the RMSNorm of the output of attention or MLP, with the weight [`Part::AttentionPostNorm`] or
    /// [`Part::MlpPostNorm`], all [N, D].
    fn add_normed(&mut self, weight: Part, output: Tensor, residual: &Tensor) -> Result<Tensor>;
    /// Keeps a tensor for the backward pass, or recycles it.
    fn used(&mut self, which: Used, tensor: Tensor) -> Result<()>;
}

/// The block's output for its input `x`, both [N, D]. Without a norm after a product, the product adds the residual itself.
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

/// What `f` makes of a tensor, which is recycled then.
pub(crate) fn consumed<R>(tensor: Tensor, f: impl FnOnce(&Tensor) -> Result<R>) -> Result<R> {
    let result = f(&tensor)?;
    recycle(tensor)?;
    Ok(result)
}
