//! One block: x + attention(norm(x)), then x + mlp(norm(x)).
//!
//! Legend: N tokens, D hidden size, F feed-forward size, KV key/value width.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use crate::config::ModelConfig;
use crate::ops::attention::{self, Heads, LogSumExp, Mask, Sequences};
use crate::ops::cast::computable;
use crate::ops::matmul::{linear, linear_add, linear_backward_input, linear_backward_weight};
use crate::ops::pool::recycle;
use crate::ops::rope::{Direction, Positions, RopeTable, rotate};
use crate::ops::{rms_norm, swiglu};
use crate::packed::PackedBatch;
use crate::params::{BLOCK_VIEWS, Layout};

/// The nine tensors of a block: weights or their gradients.
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
    /// Views of block `index` in its layer's buffer. On a CPU, bf16 weights are converted to f32.
    pub(crate) fn of(layer: &Tensor, layout: &Layout, index: usize) -> crate::Result<Self> {
        let view = |part: &str| {
            let at = BLOCK_VIEWS.iter().position(|p| *p == part).unwrap_or(usize::MAX);
            Ok::<_, crate::Error>(computable(&layout.view(layer, index + 1, at)?)?)
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

/// Activations saved for the backward pass. Norms and the SwiGLU output are recomputed: they take little time and a third
/// of the memory.
pub(crate) struct BlockActivations {
    x_nd: Tensor,
    q_nd: Tensor,
    k_nkv: Tensor,
    v_nkv: Tensor,
    lse: LogSumExp,
    attended_nd: Tensor,
    middle_nd: Tensor,
    gate_nf: Tensor,
    up_nf: Tensor,
}

impl BlockActivations {
    /// Keeps the block's input and recycles the rest.
    pub(crate) fn into_input(self) -> Result<Tensor> {
        for tensor in [self.q_nd, self.k_nkv, self.v_nkv, self.attended_nd, self.middle_nd, self.gate_nf, self.up_nf] {
            recycle(tensor)?;
        }
        Ok(self.x_nd)
    }
}

/// Inputs shared by all blocks of a pass: head sizes, RoPE, and the batch's positions and sequences on the device.
pub(crate) struct Shape {
    pub(crate) heads: Heads,
    pub(crate) eps: f32,
    pub(crate) rope: Arc<RopeTable>,
    pub(crate) positions: Positions,
    pub(crate) sequences: Sequences,
}

impl Shape {
    /// Uploads the positions and sequences of `batch` to `device`.
    pub(crate) fn new(
        config: &ModelConfig,
        rope: Arc<RopeTable>,
        batch: &PackedBatch,
        device: &Device,
    ) -> Result<Self> {
        Ok(Self {
            heads: Heads { query: config.num_attention_heads, kv: config.kv_heads(), dim: config.head_dim() },
            eps: config.rms_norm_eps as f32,
            positions: Positions::new(&batch.positions, &rope, device)?,
            sequences: Sequences::new(&batch.bounds, device)?,
            rope,
        })
    }
}

/// `x` [N, D] → the block's output [N, D] and what its backward pass needs, `x` among it.
pub(crate) fn forward(x: Tensor, w: &BlockWeights, shape: &Shape) -> Result<(Tensor, BlockActivations)> {
    let normed = rms_norm::forward(&x, &w.input_norm, shape.eps)?;
    let (q, k, v) = (linear(&normed, &w.q)?, linear(&normed, &w.k)?, linear(&normed, &w.v)?);
    rotate(&q, &shape.positions, &shape.rope, Direction::Forward)?;
    rotate(&k, &shape.positions, &shape.rope, Direction::Forward)?;
    recycle(normed)?;
    let (attended, lse) = attention::forward(&q, &k, &v, &shape.sequences, shape.heads, &Mask::causal())?;
    let middle = linear_add(&x, &attended, &w.o)?;
    let normed = rms_norm::forward(&middle, &w.post_norm, shape.eps)?;
    let (gate, up) = (linear(&normed, &w.gate)?, linear(&normed, &w.up)?);
    recycle(normed)?;
    let activated = swiglu::forward(&gate, &up)?;
    let y = linear_add(&middle, &activated, &w.down)?;
    recycle(activated)?;
    let saved = BlockActivations {
        x_nd: x,
        q_nd: q,
        k_nkv: k,
        v_nkv: v,
        lse,
        attended_nd: attended,
        middle_nd: middle,
        gate_nf: gate,
        up_nf: up,
    };
    Ok((y, saved))
}

/// The gradient of the block's input, given that of its output; adds the gradients of the weights to `grads`.
///
/// Consumes what was saved: each tensor's memory goes back to the pool after its last use.
pub(crate) fn backward(
    saved: BlockActivations,
    dy: Tensor,
    w: &BlockWeights,
    grads: &BlockWeights,
    shape: &Shape,
) -> Result<Tensor> {
    let BlockActivations { x_nd, q_nd, k_nkv, v_nkv, lse, attended_nd, middle_nd, gate_nf, up_nf } = saved;
    // In place: gate and up become their gradients, the gradient of the activated values these values.
    let activated = linear_backward_input(&[(&dy, &w.down)])?;
    swiglu::backward(&gate_nf, &up_nf, &activated)?;
    linear_backward_weight(&dy, &activated, &grads.down)?;
    recycle(activated)?;
    let normed = rms_norm::forward(&middle_nd, &w.post_norm, shape.eps)?;
    linear_backward_weight(&gate_nf, &normed, &grads.gate)?;
    linear_backward_weight(&up_nf, &normed, &grads.up)?;
    recycle(normed)?;
    let dnormed = linear_backward_input(&[(&gate_nf, &w.gate), (&up_nf, &w.up)])?;
    recycle(gate_nf)?;
    recycle(up_nf)?;
    let dmiddle = rms_norm::backward(&middle_nd, &w.post_norm, shape.eps, &dnormed, Some(&dy), &grads.post_norm)?;
    for tensor in [dnormed, middle_nd, dy] {
        recycle(tensor)?;
    }

    linear_backward_weight(&dmiddle, &attended_nd, &grads.o)?;
    let dattended = linear_backward_input(&[(&dmiddle, &w.o)])?;
    let (dq, dk, dv) = attention::backward(
        &q_nd,
        &k_nkv,
        &v_nkv,
        &attended_nd,
        &lse,
        &dattended,
        &shape.sequences,
        shape.heads,
        &Mask::causal(),
    )?;
    for tensor in [q_nd, k_nkv, v_nkv, attended_nd, dattended] {
        recycle(tensor)?;
    }
    rotate(&dq, &shape.positions, &shape.rope, Direction::Backward)?;
    rotate(&dk, &shape.positions, &shape.rope, Direction::Backward)?;
    let normed = rms_norm::forward(&x_nd, &w.input_norm, shape.eps)?;
    linear_backward_weight(&dq, &normed, &grads.q)?;
    linear_backward_weight(&dk, &normed, &grads.k)?;
    linear_backward_weight(&dv, &normed, &grads.v)?;
    recycle(normed)?;
    let dnormed = linear_backward_input(&[(&dq, &w.q), (&dk, &w.k), (&dv, &w.v)])?;
    for tensor in [dq, dk, dv] {
        recycle(tensor)?;
    }
    let dx = rms_norm::backward(&x_nd, &w.input_norm, shape.eps, &dnormed, Some(&dmiddle), &grads.input_norm)?;
    for tensor in [dnormed, dmiddle, x_nd] {
        recycle(tensor)?;
    }
    Ok(dx)
}
