//! A block of the training pass: what its forward pass saves, and its backward pass.
//!
//! Legend: N tokens, D hidden size, Q query size, KV key/value size, F feed-forward size.

use std::borrow::Cow;

use candle_core::{Result, Tensor};

use super::block::{self, BlockPass, Used};
use super::linear::LinearWeight;
use super::shape::BatchShape;
use super::weights::{BlockGradients, BlockWeights};
use crate::config::{Architecture, HeadNorm};
use crate::params::Part;
use spag_ops::accumulate::add_into;
use spag_ops::attention::{self, LogSumExp};
use spag_ops::pool::recycle;
use spag_ops::rope::Direction;
use spag_ops::{head_norm, rms_norm};

/// Activations saved for the backward pass. Norms and the activated values are recomputed: they take little time and a third
/// of the memory.
pub(super) struct BlockActivations {
    input: Tensor,
    heads: SavedHeads,
    attended: Tensor,
    middle: Tensor,
    mlp: (Tensor, Tensor),
    /// The outputs of attention and MLP before their norms, if they have any.
    outputs: Option<(Tensor, Tensor)>,
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
    /// Queries, keys, values, attended, middle, gate and up; queries and keys once more if they are normalised, and the outputs
    /// of attention and MLP if they are.
    pub activations: usize,
    /// Those of `activations` that exist because they are normalised. On a CPU they are f32.
    pub raw: usize,
    /// The log-sum-exps of attention, f32.
    pub sums: usize,
}

impl SavedElements {
    /// The elements of a block of this architecture.
    pub fn per_token(model: &Architecture) -> Self {
        let (d, q, kv) = (model.hidden_size, model.query_size(), model.kv_size());
        let heads = match model.head_norm {
            HeadNorm::None => 0,
            HeadNorm::QueriesAndKeys | HeadNorm::WholeWidth => q + kv,
        };
        let raw = heads + if model.norms.after() { 2 * d } else { 0 };
        let activations = raw + 2 * q + 2 * kv + d + 2 * model.intermediate_size;
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
    outputs: Vec<Tensor>,
}

impl BlockPass for TrainPass<'_> {
    fn norm(&self, weight: Part, x: &Tensor) -> Result<Tensor> {
        self.weights.normed(weight, x, self.shape.norm)
    }

    fn attend(&mut self, input: &Tensor) -> Result<Tensor> {
        let (w, shape) = (self.weights, self.shape);
        let (q, k, v) = (w.q.forward(input, None)?, w.k.forward(input, None)?, w.v.forward(input, None)?);
        let (raw, q, k) = match &w.head_norms {
            None => (None, q, k),
            Some((q_norm, k_norm)) => {
                let normed = (head_norm::forward(&q, q_norm, shape.norm)?, head_norm::forward(&k, k_norm, shape.norm)?);
                (Some((q, k)), normed.0, normed.1)
            }
        };
        shape.rotate(&q, self.layer, Direction::Forward)?;
        shape.rotate(&k, self.layer, Direction::Forward)?;
        let (q, k, v) = (w.stored(q)?, w.stored(k)?, w.stored(v)?);
        let mask = &shape.masks[self.layer];
        let (attended, lse) =
            attention::forward_in([&q, &k, &v], &shape.sequences, shape.heads, mask, shape.attention)?;
        self.heads = Some(SavedHeads { raw, q, k, v, lse });
        Ok(attended)
    }

    fn project(&self, attended: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        self.weights.o.forward(attended, residual)
    }

    fn activate(&mut self, input: &Tensor) -> Result<Tensor> {
        let w = self.weights;
        let (gate, up) = (w.stored(w.gate.forward(input, None)?)?, w.stored(w.up.forward(input, None)?)?);
        let activated = self.shape.activation.forward(&gate, &up)?;
        self.mlp = Some((gate, up));
        Ok(activated)
    }

    fn down(&self, activated: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        self.weights.down.forward(activated, residual)
    }

    fn add_normed(&mut self, weight: Part, output: Tensor, residual: &Tensor) -> Result<Tensor> {
        let sum = rms_norm::forward_add(residual, &output, self.weights.norms.get(weight)?, self.shape.norm)?;
        self.outputs.push(output);
        Ok(sum)
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
    let (input, heads, attended, middle, mlp, outputs) = (None, None, None, None, None, Vec::new());
    let mut pass = TrainPass { weights, shape, layer, input, heads, attended, middle, mlp, outputs };
    let y = block::forward(x, shape.norms, &mut pass)?;
    let mut outputs = pass.outputs.into_iter();
    let outputs = outputs.next().zip(outputs.next());
    match (pass.input, pass.heads, pass.attended, pass.middle, pass.mlp) {
        (Some(input), Some(heads), Some(attended), Some(middle), Some(mlp)) => {
            Ok((y, BlockActivations { input, heads, attended, middle, mlp, outputs }))
        }
        _ => candle_core::bail!("a block did not save all of its activations"),
    }
}

impl BlockActivations {
    /// Keeps the block's input and recycles the rest.
    pub(super) fn into_input(self) -> Result<Tensor> {
        let Self { input, heads: SavedHeads { raw, q, k, v, .. }, attended, middle, mlp: (gate, up), outputs } = self;
        for tensor in [q, k, v, attended, middle, gate, up] {
            recycle(tensor)?;
        }
        for (one, other) in raw.into_iter().chain(outputs) {
            recycle(one)?;
            recycle(other)?;
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
    grads: &BlockGradients,
    shape: &BatchShape,
    layer: usize,
) -> Result<Tensor> {
    let BlockActivations { input, heads, attended, middle, mlp: (gate, up), outputs } = saved;
    let (of_attention, of_mlp) = outputs.unzip();
    let gradients = Gradients { w, grads, shape };
    let doutput = gradients.of_output(Part::MlpPostNorm, of_mlp, &dy)?;
    // In place: gate and up become their gradients, the gradient of the activated values these values.
    let activated = LinearWeight::backward_input(&[(&doutput, &w.down.weight)])?;
    shape.activation.backward(&gate, &up, &activated)?;
    w.down.accumulate(&grads.down, &doutput, &activated)?;
    recycle(activated)?;
    recycle_owned(doutput)?;
    gradients.with_input(Part::MlpNorm, &middle, |normed| {
        w.gate.accumulate(&grads.gate, &gate, normed)?;
        w.up.accumulate(&grads.up, &up, normed)
    })?;
    let dinput = LinearWeight::backward_input(&[(&gate, &w.gate.weight), (&up, &w.up.weight)])?;
    recycle(gate)?;
    recycle(up)?;
    let dmiddle = gradients.of_input(Part::MlpNorm, middle, dinput, dy)?;

    let doutput = gradients.of_output(Part::AttentionPostNorm, of_attention, &dmiddle)?;
    w.o.accumulate(&grads.o, &doutput, &attended)?;
    let dattended = LinearWeight::backward_input(&[(&doutput, &w.o.weight)])?;
    recycle_owned(doutput)?;
    let [dq, dk, dv] = heads_backward(heads, attended, dattended, w, grads, shape, layer)?;
    gradients.with_input(Part::AttentionNorm, &input, |normed| {
        w.q.accumulate(&grads.q, &dq, normed)?;
        w.k.accumulate(&grads.k, &dk, normed)?;
        w.v.accumulate(&grads.v, &dv, normed)
    })?;
    let dinput = LinearWeight::backward_input(&[(&dq, &w.q.weight), (&dk, &w.k.weight), (&dv, &w.v.weight)])?;
    for tensor in [dq, dk, dv] {
        recycle(tensor)?;
    }
    gradients.of_input(Part::AttentionNorm, input, dinput, dmiddle)
}

/// The gradients of what norms stand between: the inputs and outputs of attention and MLP.
struct Gradients<'a> {
    w: &'a BlockWeights,
    grads: &'a BlockGradients,
    shape: &'a BatchShape,
}

impl Gradients<'_> {
    /// The gradient of the output of attention or MLP, given that of the sum that it is part of.
    fn of_output<'a>(&self, norm: Part, output: Option<Tensor>, dsum: &'a Tensor) -> Result<Cow<'a, Tensor>> {
        let Some(output) = output else { return Ok(Cow::Borrowed(dsum)) };
        let (weight, gradient) = (self.w.norms.get(norm)?, self.grads.norms.get(norm)?);
        let doutput = rms_norm::backward(&output, weight, self.shape.norm, dsum, None, gradient)?;
        recycle(output)?;
        Ok(Cow::Owned(doutput))
    }

    /// Calls `f` with the input of attention or MLP, which is recomputed from `x` if it is normalised.
    fn with_input(&self, norm: Part, x: &Tensor, f: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
        if !self.shape.norms.before() {
            return f(x);
        }
        let normed = self.w.normed(norm, x, self.shape.norm)?;
        f(&normed)?;
        recycle(normed)
    }

    /// The gradient of `x`, given those of the input of attention or MLP that is made of it, and of the residual connection.
    fn of_input(&self, norm: Part, x: Tensor, dinput: Tensor, residual: Tensor) -> Result<Tensor> {
        if !self.shape.norms.before() {
            add_into(&residual, &dinput)?;
            recycle(x)?;
            recycle(residual)?;
            return Ok(dinput);
        }
        let (weight, gradient) = (self.w.norms.get(norm)?, self.grads.norms.get(norm)?);
        let dx = rms_norm::backward(&x, weight, self.shape.norm, &dinput, Some(&residual), gradient)?;
        for tensor in [dinput, x, residual] {
            recycle(tensor)?;
        }
        Ok(dx)
    }
}

/// Recycles a gradient unless another still uses it.
fn recycle_owned(gradient: Cow<'_, Tensor>) -> Result<()> {
    match gradient {
        Cow::Owned(gradient) => recycle(gradient),
        Cow::Borrowed(_) => Ok(()),
    }
}

/// The gradients of queries, keys and values as the projections gave them.
fn heads_backward(
    saved: SavedHeads,
    attended: Tensor,
    dattended: Tensor,
    w: &BlockWeights,
    grads: &BlockGradients,
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
    shape.rotate(&dq, layer, Direction::Backward)?;
    shape.rotate(&dk, layer, Direction::Backward)?;
    let (Some((q, k)), Some((q_norm, k_norm)), Some((dq_norm, dk_norm))) = (raw, &w.head_norms, &grads.head_norms)
    else {
        return Ok([dq, dk, dv]);
    };
    let dq_raw = head_norm::backward(&q, q_norm, shape.norm, &dq, dq_norm)?;
    let dk_raw = head_norm::backward(&k, k_norm, shape.norm, &dk, dk_norm)?;
    for tensor in [q, k, dq, dk] {
        recycle(tensor)?;
    }
    Ok([dq_raw, dk_raw, dv])
}
