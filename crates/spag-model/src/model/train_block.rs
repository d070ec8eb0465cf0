//! A block of the training pass: what its forward pass saves, and its backward pass.
//!
//! Legend: N tokens, D hidden size, Q query size, KV key/value size, F feed-forward size.

use candle_core::{Result, Tensor};

use super::block::{self, BlockPass, Used};
use super::shape::BatchShape;
use super::weights::BlockWeights;
use crate::config::{Architecture, HeadNorm};
use crate::params::Part;
use spag_ops::attention::{self, LogSumExp};
use spag_ops::matmul::linear_backward_input;
use spag_ops::pool::recycle;
use spag_ops::rope::Direction;
use spag_ops::{head_norm, rms_norm, swiglu};

/// Activations saved for the backward pass. Norms and the SwiGLU output are recomputed: they take little time and a third
/// of the memory.
pub(super) struct BlockActivations {
    input: Tensor,
    heads: SavedHeads,
    attended: Tensor,
    middle: Tensor,
    mlp: (Tensor, Tensor),
}

/// Queries, keys and values.
struct SavedHeads {
    /// Queries and keys before their norms, if they have any.
    raw: Option<(Tensor, Tensor)>,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: LogSumExp,
}

/// Elements that a block saves per token, beside its input: of the model's number format, and f32.
///
/// The memory formulas of training are made of these, so they must change together with what a block saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedElements {
    /// Queries, keys, values, attended, middle, gate and up; queries and keys once more if they are normalised.
    pub activations: usize,
    /// Those of `activations` that exist because queries and keys are normalised.
    pub raw: usize,
    /// The log-sum-exps of attention, f32.
    pub sums: usize,
}

impl SavedElements {
    /// The elements of a block of this architecture.
    pub fn per_token(model: &Architecture) -> Self {
        let (q, kv) = (model.query_size(), model.kv_size());
        let raw = match model.head_norm {
            HeadNorm::None => 0,
            HeadNorm::QueriesAndKeys => q + kv,
        };
        let activations = raw + 2 * q + 2 * kv + model.hidden_size + 2 * model.intermediate_size;
        Self { activations, raw, sums: model.heads.query }
    }
}

/// The pass over one block.
struct TrainPass<'a> {
    weights: &'a BlockWeights,
    shape: &'a BatchShape,
    layer: usize,
    input: Option<Tensor>,
    heads: Option<SavedHeads>,
    attended: Option<Tensor>,
    middle: Option<Tensor>,
    mlp: Option<(Tensor, Tensor)>,
}

impl BlockPass for TrainPass<'_> {
    fn norm(&self, weight: Part, x: &Tensor) -> Result<Tensor> {
        self.weights.normed(weight, x, self.shape.eps)
    }

    fn attend(&mut self, normed: Tensor) -> Result<Tensor> {
        let (w, shape) = (self.weights, self.shape);
        let (q, k, v) = (w.q.forward(&normed)?, w.k.forward(&normed)?, w.v.forward(&normed)?);
        recycle(normed)?;
        let (raw, q, k) = match &w.head_norms {
            None => (None, q, k),
            Some((q_norm, k_norm)) => {
                let normed = (head_norm::forward(&q, q_norm, shape.eps)?, head_norm::forward(&k, k_norm, shape.eps)?);
                (Some((q, k)), normed.0, normed.1)
            }
        };
        shape.rotate(&q, Direction::Forward)?;
        shape.rotate(&k, Direction::Forward)?;
        let (q, k, v) = (w.stored(q)?, w.stored(k)?, w.stored(v)?);
        let mask = &shape.masks[self.layer];
        let (attended, lse) = attention::forward(&q, &k, &v, &shape.sequences, shape.heads, mask)?;
        self.heads = Some(SavedHeads { raw, q, k, v, lse });
        Ok(attended)
    }

    fn project(&self, attended: &Tensor, residual: &Tensor) -> Result<Tensor> {
        self.weights.o.forward_add(residual, attended)
    }

    fn activate(&mut self, normed: Tensor) -> Result<Tensor> {
        let w = self.weights;
        let (gate, up) = (w.stored(w.gate.forward(&normed)?)?, w.stored(w.up.forward(&normed)?)?);
        recycle(normed)?;
        let activated = swiglu::forward(&gate, &up)?;
        self.mlp = Some((gate, up));
        Ok(activated)
    }

    fn down(&self, activated: &Tensor, residual: &Tensor) -> Result<Tensor> {
        self.weights.down.forward_add(residual, activated)
    }

    fn used(&mut self, which: Used, tensor: Tensor) -> Result<()> {
        let place = match which {
            Used::Input => &mut self.input,
            Used::Attended => &mut self.attended,
            Used::Middle => &mut self.middle,
        };
        *place = Some(tensor);
        Ok(())
    }
}

/// `x` [N, D] → the output of block `layer` [N, D] and what its backward pass needs, `x` among it.
pub(super) fn forward(
    x: Tensor,
    weights: &BlockWeights,
    shape: &BatchShape,
    layer: usize,
) -> Result<(Tensor, BlockActivations)> {
    let mut pass =
        TrainPass { weights, shape, layer, input: None, heads: None, attended: None, middle: None, mlp: None };
    let y = block::forward(x, &mut pass)?;
    match (pass.input, pass.heads, pass.attended, pass.middle, pass.mlp) {
        (Some(input), Some(heads), Some(attended), Some(middle), Some(mlp)) => {
            Ok((y, BlockActivations { input, heads, attended, middle, mlp }))
        }
        _ => candle_core::bail!("a block did not save all of its activations"),
    }
}

impl BlockActivations {
    /// Keeps the block's input and recycles the rest.
    pub(super) fn into_input(self) -> Result<Tensor> {
        let Self { input, heads: SavedHeads { raw, q, k, v, .. }, attended, middle, mlp: (gate, up) } = self;
        for tensor in [q, k, v, attended, middle, gate, up] {
            recycle(tensor)?;
        }
        if let Some((q, k)) = raw {
            recycle(q)?;
            recycle(k)?;
        }
        Ok(input)
    }
}

/// The gradient of the block's input, given that of its output; adds the gradients of the weights to `grads`.
///
/// Consumes what was saved: each tensor's memory goes back to the pool after its last use.
pub(super) fn backward(
    saved: BlockActivations,
    dy: Tensor,
    w: &BlockWeights,
    grads: &BlockWeights,
    shape: &BatchShape,
    layer: usize,
) -> Result<Tensor> {
    let BlockActivations { input, heads, attended, middle, mlp: (gate, up) } = saved;
    // In place: gate and up become their gradients, the gradient of the activated values these values.
    let activated = linear_backward_input(&[(&dy, &w.down.weight)])?;
    swiglu::backward(&gate, &up, &activated)?;
    w.down.accumulate(&grads.down, &dy, &activated)?;
    recycle(activated)?;
    let normed = w.normed(Part::MlpNorm, &middle, shape.eps)?;
    w.gate.accumulate(&grads.gate, &gate, &normed)?;
    w.up.accumulate(&grads.up, &up, &normed)?;
    recycle(normed)?;
    let dnormed = linear_backward_input(&[(&gate, &w.gate.weight), (&up, &w.up.weight)])?;
    recycle(gate)?;
    recycle(up)?;
    let dmiddle = rms_norm::backward(&middle, &w.mlp_norm, shape.eps, &dnormed, Some(&dy), &grads.mlp_norm)?;
    for tensor in [dnormed, middle, dy] {
        recycle(tensor)?;
    }

    w.o.accumulate(&grads.o, &dmiddle, &attended)?;
    let dattended = linear_backward_input(&[(&dmiddle, &w.o.weight)])?;
    let [dq, dk, dv] = heads_backward(heads, attended, dattended, w, grads, shape, layer)?;
    let normed = w.normed(Part::AttentionNorm, &input, shape.eps)?;
    w.q.accumulate(&grads.q, &dq, &normed)?;
    w.k.accumulate(&grads.k, &dk, &normed)?;
    w.v.accumulate(&grads.v, &dv, &normed)?;
    recycle(normed)?;
    let dnormed = linear_backward_input(&[(&dq, &w.q.weight), (&dk, &w.k.weight), (&dv, &w.v.weight)])?;
    for tensor in [dq, dk, dv] {
        recycle(tensor)?;
    }
    let dx = rms_norm::backward(&input, &w.attention_norm, shape.eps, &dnormed, Some(&dmiddle), &grads.attention_norm)?;
    for tensor in [dnormed, dmiddle, input] {
        recycle(tensor)?;
    }
    Ok(dx)
}

/// The gradients of queries, keys and values as the projections gave them.
fn heads_backward(
    saved: SavedHeads,
    attended: Tensor,
    dattended: Tensor,
    w: &BlockWeights,
    grads: &BlockWeights,
    shape: &BatchShape,
    layer: usize,
) -> Result<[Tensor; 3]> {
    let SavedHeads { raw, q, k, v, lse } = saved;
    let mask = &shape.masks[layer];
    let (dq, dk, dv) =
        attention::backward(&q, &k, &v, &attended, &lse, &dattended, &shape.sequences, shape.heads, mask)?;
    for tensor in [q, k, v, attended, dattended] {
        recycle(tensor)?;
    }
    shape.rotate(&dq, Direction::Backward)?;
    shape.rotate(&dk, Direction::Backward)?;
    let (Some((q, k)), Some((q_norm, k_norm)), Some((dq_norm, dk_norm))) = (raw, &w.head_norms, &grads.head_norms)
    else {
        return Ok([dq, dk, dv]);
    };
    let dq_raw = head_norm::backward(&q, q_norm, shape.eps, &dq, dq_norm)?;
    let dk_raw = head_norm::backward(&k, k_norm, shape.eps, &dk, dk_norm)?;
    for tensor in [q, k, dq, dk] {
        recycle(tensor)?;
    }
    Ok([dq_raw, dk_raw, dv])
}
