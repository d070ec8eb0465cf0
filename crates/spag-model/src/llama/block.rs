//! One block: x + attention(norm(x)), then x + mlp(norm(x)).
//!
//! Legend: N tokens, D hidden size, F feed-forward size, KV key/value width.

use candle_core::{Result, Tensor};

use crate::config::LlamaConfig;
use crate::ops::attention::{self, Heads, LogSumExp};
use crate::ops::cast::widened;
use crate::ops::matmul::{linear, linear_backward_input, linear_backward_weight};
use crate::ops::rope::{Direction, RopeTable, rotate};
use crate::ops::{rms_norm, swiglu};
use crate::packed::Packed;
use crate::params::{BLOCK_VIEWS, FlatBuffers};

/// The nine tensors of a block: its weights, or the gradients of its weights.
pub(crate) struct BlockWeights {
    pub(crate) input_norm: Tensor,
    pub(crate) q: Tensor,
    pub(crate) k: Tensor,
    pub(crate) v: Tensor,
    pub(crate) o: Tensor,
    pub(crate) post_norm: Tensor,
    pub(crate) gate: Tensor,
    pub(crate) up: Tensor,
    pub(crate) down: Tensor,
}

impl BlockWeights {
    /// Views of block `index` in `buffers`; f32 copies of them where the buffers are bf16.
    pub(crate) fn of(buffers: &FlatBuffers, index: usize) -> crate::Result<Self> {
        let view = |part: &str| {
            let at = BLOCK_VIEWS.iter().position(|p| *p == part).unwrap_or(usize::MAX);
            Ok::<_, crate::Error>(widened(&buffers.view(index + 1, at)?)?)
        };
        Ok(Self {
            input_norm: view("input_layernorm")?,
            q: view("self_attn.q_proj")?,
            k: view("self_attn.k_proj")?,
            v: view("self_attn.v_proj")?,
            o: view("self_attn.o_proj")?,
            post_norm: view("post_attention_layernorm")?,
            gate: view("mlp.gate_proj")?,
            up: view("mlp.up_proj")?,
            down: view("mlp.down_proj")?,
        })
    }
}

/// What the backward pass of a block reads.
pub(crate) struct BlockActivations {
    x_nd: Tensor,
    normed_nd: Tensor,
    q_nd: Tensor,
    k_nkv: Tensor,
    v_nkv: Tensor,
    lse: LogSumExp,
    attended_nd: Tensor,
    middle_nd: Tensor,
    middle_normed_nd: Tensor,
    gate_nf: Tensor,
    up_nf: Tensor,
    activated_nf: Tensor,
}

/// Sizes that every layer's functions need.
pub(crate) struct Shape<'a> {
    pub(crate) heads: Heads,
    pub(crate) eps: f32,
    pub(crate) rope: &'a RopeTable,
}

impl<'a> Shape<'a> {
    pub(crate) fn new(config: &LlamaConfig, rope: &'a RopeTable) -> Self {
        let heads = Heads { query: config.num_attention_heads, kv: config.kv_heads(), dim: config.head_dim() };
        Self { heads, eps: config.rms_norm_eps as f32, rope }
    }
}

/// Queries, keys (both turned to their positions) and values of new rows; `project` is the linear layer to use.
pub(crate) fn qkv_forward(
    normed: &Tensor,
    w: &BlockWeights,
    positions: &[u32],
    rope: &RopeTable,
    project: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (q, k, v) = (project(normed, &w.q)?, project(normed, &w.k)?, project(normed, &w.v)?);
    rotate(&q, positions, rope, Direction::Forward)?;
    rotate(&k, positions, rope, Direction::Forward)?;
    Ok((q, k, v))
}

/// down(silu(gate(x))·up(x)) with what the backward pass needs: (gate, up, activated, output).
pub(crate) fn mlp_forward(
    normed: &Tensor,
    w: &BlockWeights,
    project: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let (gate, up) = (project(normed, &w.gate)?, project(normed, &w.up)?);
    let activated = swiglu::forward(&gate, &up)?;
    let output = project(&activated, &w.down)?;
    Ok((gate, up, activated, output))
}

/// `x` [N, D] → the block's output [N, D] and what its backward pass needs.
pub(crate) fn forward(
    x: &Tensor,
    w: &BlockWeights,
    batch: &Packed,
    shape: &Shape<'_>,
) -> Result<(Tensor, BlockActivations)> {
    let normed = rms_norm::forward(x, &w.input_norm, shape.eps)?;
    let (q, k, v) = qkv_forward(&normed, w, &batch.positions, shape.rope, linear)?;
    let (attended, lse) = attention::forward(&q, &k, &v, &batch.bounds, shape.heads)?;
    let middle = (x + linear(&attended, &w.o)?)?;
    let middle_normed = rms_norm::forward(&middle, &w.post_norm, shape.eps)?;
    let (gate, up, activated, output) = mlp_forward(&middle_normed, w, linear)?;
    let y = (&middle + output)?;
    let saved = BlockActivations {
        x_nd: x.clone(),
        normed_nd: normed,
        q_nd: q,
        k_nkv: k,
        v_nkv: v,
        lse,
        attended_nd: attended,
        middle_nd: middle,
        middle_normed_nd: middle_normed,
        gate_nf: gate,
        up_nf: up,
        activated_nf: activated,
    };
    Ok((y, saved))
}

/// The gradient of the block's input, given that of its output; adds the gradients of the weights to `grads`.
pub(crate) fn backward(
    saved: &BlockActivations,
    dy: &Tensor,
    w: &BlockWeights,
    grads: &BlockWeights,
    batch: &Packed,
    shape: &Shape<'_>,
) -> Result<Tensor> {
    linear_backward_weight(dy, &saved.activated_nf, &grads.down)?;
    let dactivated = linear_backward_input(&[(dy, &w.down)])?;
    let (dgate, dup) = swiglu::backward(&saved.gate_nf, &saved.up_nf, &dactivated)?;
    linear_backward_weight(&dgate, &saved.middle_normed_nd, &grads.gate)?;
    linear_backward_weight(&dup, &saved.middle_normed_nd, &grads.up)?;
    let dnormed = linear_backward_input(&[(&dgate, &w.gate), (&dup, &w.up)])?;
    let dmiddle = rms_norm::backward(&saved.middle_nd, &w.post_norm, shape.eps, &dnormed, Some(dy), &grads.post_norm)?;

    linear_backward_weight(&dmiddle, &saved.attended_nd, &grads.o)?;
    let dattended = linear_backward_input(&[(&dmiddle, &w.o)])?;
    let (dq, dk, dv) = attention::backward(
        &saved.q_nd,
        &saved.k_nkv,
        &saved.v_nkv,
        &saved.attended_nd,
        &saved.lse,
        &dattended,
        &batch.bounds,
        shape.heads,
    )?;
    rotate(&dq, &batch.positions, shape.rope, Direction::Backward)?;
    rotate(&dk, &batch.positions, shape.rope, Direction::Backward)?;
    linear_backward_weight(&dq, &saved.normed_nd, &grads.q)?;
    linear_backward_weight(&dk, &saved.normed_nd, &grads.k)?;
    linear_backward_weight(&dv, &saved.normed_nd, &grads.v)?;
    let dnormed = linear_backward_input(&[(&dq, &w.q), (&dk, &w.k), (&dv, &w.v)])?;
    rms_norm::backward(&saved.x_nd, &w.input_norm, shape.eps, &dnormed, Some(&dmiddle), &grads.input_norm)
}
