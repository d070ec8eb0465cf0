//! A block of the training pass: the activations saved by its forward pass, and its backward pass.
//!
//! Legend: N tokens, D hidden size, Q query size, KV key/value size, F feed-forward size.

use std::borrow::Cow;

use candle_core::{Result, Tensor};

use super::block::{self, BlockPass, Used};
use super::linear::{Linear, LinearGradient, LinearWeight, Residual};
use super::shape::{BatchShape, only};
use super::weights::{BlockGradients, BlockWeights};
use crate::config::{Architecture, HeadNorm};
use crate::params::Part;
use spag_ops::accumulate::add_into;
use spag_ops::attention::{self, LogSumExp};
use spag_ops::pool::recycle;
use spag_ops::rope::Direction;
use spag_ops::{head_norm, kernels, rms_norm};

/// Activations saved for the backward pass. Norms and the activated values are recomputed: they take little time and a third
/// of the memory.
pub(super) struct BlockActivations {
    input: Tensor,
    heads: SavedHeads,
    attended: Tensor,
    middle: Tensor,
    /// Gate and up, as computed by their products.
    gate_up: Vec<Tensor>,
    /// The outputs of attention and MLP before their norms, if any.
    outputs: Option<(Tensor, Tensor)>,
}

/// Queries, keys and values.
struct SavedHeads {
    /// Queries and keys before their norms, if any.
    raw: Option<(Tensor, Tensor)>,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lse: LogSumExp,
}

/// Elements saved per token by a block, in addition to its input: in the model's number format, and in f32.
///
/// The memory formulas of training are based on these, so they must be kept in sync with the saved activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedElements {
    /// Queries, keys, values, attended, middle, gate and up; queries and keys again if they are normalised, and the outputs of
    /// attention and MLP if they are.
    pub activations: usize,
    /// The part of `activations` that is saved because of normalisation. On a CPU it is f32.
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
    /// A copy of the residual for the next output.
    copy: Option<Tensor>,
    input: Option<Tensor>,
    heads: Option<SavedHeads>,
    attended: Option<Tensor>,
    middle: Option<Tensor>,
    gate_up: Vec<Tensor>,
    outputs: Vec<Tensor>,
}

impl BlockPass for TrainPass<'_> {
    fn norm(&mut self, weight: Part, x: &Tensor) -> Result<Tensor> {
        if self.shape.norms.after() || kernels::of(x.device())?.is_none() {
            return self.weights.normed(weight, x, self.shape.norm);
        }
        // Products on a device add to their output in place; letting the norm write the copy saves a kernel.
        let (normed, copy) = rms_norm::forward_and_copy(x, self.weights.norms.get(weight)?, self.shape.norm)?;
        self.copy = Some(copy);
        Ok(normed)
    }

    fn attend(&mut self, input: &Tensor) -> Result<Tensor> {
        let (w, shape) = (self.weights, self.shape);
        let products = w.qkv.iter().map(|layer| layer.forward(input, Residual::None)).collect::<Result<_>>()?;
        let (raw, q, k, v) = match &w.head_norms {
            None => {
                let [q, k, v] = shape.split(products, shape.rotation(self.layer))?;
                (None, q, k, v)
            }
            Some((q_norm, k_norm)) => {
                let [q, k, v] = shape.split(products, None)?;
                let normed = (head_norm::forward(&q, q_norm, shape.norm)?, head_norm::forward(&k, k_norm, shape.norm)?);
                shape.rotate([&normed.0, &normed.1], self.layer, Direction::Forward)?;
                (Some((q, k)), normed.0, normed.1, v)
            }
        };
        let (q, k, v) = (w.stored(q)?, w.stored(k)?, w.stored(v)?);
        let mask = &shape.masks[self.layer];
        let (attended, lse) =
            attention::forward_in([&q, &k, &v], &shape.sequences, shape.heads, mask, shape.attention)?;
        self.heads = Some(SavedHeads { raw, q, k, v, lse });
        Ok(attended)
    }

    fn project(&mut self, attended: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        self.weights.o.forward(attended, Residual::of(residual, self.copy.take()))
    }

    fn activate(&mut self, input: &Tensor) -> Result<Tensor> {
        self.multiply(input)?;
        match &self.gate_up[..] {
            [gate, up] => self.shape.activation.forward(gate, up),
            joined => self.shape.activation.forward_joined(only(joined)?),
        }
    }

    fn down(&mut self, activated: &Tensor, residual: Option<&Tensor>) -> Result<Tensor> {
        self.weights.down.forward(activated, Residual::of(residual, self.copy.take()))
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

impl<'a> TrainPass<'a> {
    fn new(weights: &'a BlockWeights, shape: &'a BatchShape, layer: usize) -> Self {
        let (gate_up, outputs) = (Vec::new(), Vec::new());
        let (copy, input, heads, attended, middle) = (None, None, None, None, None);
        Self { weights, shape, layer, copy, input, heads, attended, middle, gate_up, outputs }
    }

    /// Computes and saves gate and up of the MLP's input.
    fn multiply(&mut self, input: &Tensor) -> Result<()> {
        let w = self.weights;
        let products = w.gate_up.iter().map(|layer| w.stored(layer.forward(input, Residual::None)?));
        self.gate_up = products.collect::<Result<_>>()?;
        Ok(())
    }

    fn saved(self) -> Result<BlockActivations> {
        let mut outputs = self.outputs.into_iter();
        let (gate_up, outputs) = (self.gate_up, outputs.next().zip(outputs.next()));
        match (self.input, self.heads, self.attended, self.middle) {
            (Some(input), Some(heads), Some(attended), Some(middle)) => {
                Ok(BlockActivations { input, heads, attended, middle, gate_up, outputs })
            }
            _ => candle_core::bail!("a block did not save all of its activations"),
        }
    }
}

/// `x` [N, D] → the output of block `layer` [N, D] and the activations for its backward pass, including `x`.
pub(super) fn forward(
    x: Tensor,
    weights: &BlockWeights,
    shape: &BatchShape,
    layer: usize,
) -> Result<(Tensor, BlockActivations)> {
    let mut pass = TrainPass::new(weights, shape, layer);
    let y = block::forward(x, shape.norms, &mut pass)?;
    Ok((y, pass.saved()?))
}

/// Recomputes the activations for the backward pass of block `layer`. The block's output is computed only if its norm
/// needs it.
pub(super) fn recompute(
    x: Tensor,
    weights: &BlockWeights,
    shape: &BatchShape,
    layer: usize,
) -> Result<BlockActivations> {
    let mut pass = TrainPass::new(weights, shape, layer);
    let middle = block::attention(x, shape.norms, &mut pass)?;
    if shape.norms.after() {
        recycle(block::mlp(middle, shape.norms, &mut pass)?)?;
    } else {
        block::consumed(weights.normed(Part::MlpNorm, &middle, shape.norm)?, |normed| pass.multiply(normed))?;
        pass.middle = Some(middle);
    }
    pass.saved()
}

impl BlockActivations {
    /// Keeps the block's input and recycles the rest.
    pub(super) fn into_input(self) -> Result<Tensor> {
        let Self { input, heads: SavedHeads { raw, q, k, v, .. }, attended, middle, gate_up, outputs } = self;
        for tensor in [q, k, v, attended, middle].into_iter().chain(gate_up) {
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
/// Consumes the saved activations: each tensor's memory is returned to the pool after its last use.
pub(super) fn backward(
    saved: BlockActivations,
    dy: Tensor,
    w: &BlockWeights,
    grads: &BlockGradients,
    shape: &BatchShape,
    layer: usize,
) -> Result<Tensor> {
    let BlockActivations { input, heads, attended, middle, gate_up, outputs } = saved;
    let (of_attention, of_mlp) = outputs.unzip();
    let gradients = Gradients { w, grads, shape };
    let doutput = gradients.of_output(Part::MlpPostNorm, of_mlp, &dy)?;
    // In place: gate and up become their gradients, and the gradient of the activated values becomes these values.
    let activated = LinearWeight::backward_input(&[(&doutput, &w.down.weight)])?;
    match &gate_up[..] {
        [gate, up] => shape.activation.backward(gate, up, &activated)?,
        joined => shape.activation.backward_joined(only(joined)?, &activated)?,
    }
    w.down.accumulate(&grads.down, &doutput, &activated)?;
    recycle(activated)?;
    recycle_owned(doutput)?;
    let dmiddle = gradients.of_input(Part::MlpNorm, middle, (&w.gate_up, &grads.gate_up), gate_up, dy)?;

    let doutput = gradients.of_output(Part::AttentionPostNorm, of_attention, &dmiddle)?;
    w.o.accumulate(&grads.o, &doutput, &attended)?;
    let dattended = LinearWeight::backward_input(&[(&doutput, &w.o.weight)])?;
    recycle_owned(doutput)?;
    let dqkv = heads_backward(heads, attended, dattended, w, grads, shape, layer)?;
    gradients.of_input(Part::AttentionNorm, input, (&w.qkv, &grads.qkv), dqkv, dmiddle)
}

/// Gradients through norms: of the inputs and outputs of attention and MLP.
struct Gradients<'a> {
    w: &'a BlockWeights,
    grads: &'a BlockGradients,
    shape: &'a BatchShape,
}

impl Gradients<'_> {
    /// The gradient of the output of attention or MLP, given that of the sum with the residual.
    fn of_output<'a>(&self, norm: Part, output: Option<Tensor>, dsum: &'a Tensor) -> Result<Cow<'a, Tensor>> {
        let Some(output) = output else { return Ok(Cow::Borrowed(dsum)) };
        let (weight, gradient) = (self.w.norms.get(norm)?, self.grads.norms.get(norm)?);
        let doutput = rms_norm::backward(&output, weight, self.shape.norm, dsum, None, gradient)?;
        recycle(output)?;
        Ok(Cow::Owned(doutput))
    }

    /// The gradient of `x`, given those of the residual connection and of the products of the input of attention or MLP; also
    /// adds the gradients of the products' weights. The input is recomputed if it is normalised.
    fn of_input(
        &self,
        norm: Part,
        x: Tensor,
        (layers, grads): (&[Linear], &[LinearGradient]),
        products: Vec<Tensor>,
        residual: Tensor,
    ) -> Result<Tensor> {
        let accumulate = |input: &Tensor| {
            let mut each = layers.iter().zip(grads).zip(&products);
            each.try_for_each(|((layer, gradient), dy)| layer.accumulate(gradient, dy, input))
        };
        let dinput = || {
            let pairs: Vec<_> = products.iter().zip(layers.iter().map(|layer| &layer.weight)).collect();
            LinearWeight::backward_input(&pairs)
        };
        if !self.shape.norms.before() {
            accumulate(&x)?;
            let dinput = dinput()?;
            add_into(&residual, &dinput)?;
            products.into_iter().chain([x, residual]).try_for_each(recycle)?;
            return Ok(dinput);
        }
        let (weight, gradient, constants) = (self.w.norms.get(norm)?, self.grads.norms.get(norm)?, self.shape.norm);
        if kernels::of(x.device())?.is_some() {
            let dinput = dinput()?;
            let gradients = (&dinput, &residual);
            let (dx, normed) = rms_norm::backward_and_forward(&x, weight, constants, gradients, gradient)?;
            block::consumed(normed, accumulate)?;
            products.into_iter().chain([dinput, x, residual]).try_for_each(recycle)?;
            return Ok(dx);
        }
        block::consumed(self.w.normed(norm, &x, constants)?, accumulate)?;
        let dinput = dinput()?;
        products.into_iter().try_for_each(recycle)?;
        let dx = rms_norm::backward(&x, weight, constants, &dinput, Some(&residual), gradient)?;
        [dinput, x, residual].into_iter().try_for_each(recycle)?;
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

/// The gradients of the products of queries, keys and values.
fn heads_backward(
    saved: SavedHeads,
    attended: Tensor,
    dattended: Tensor,
    w: &BlockWeights,
    grads: &BlockGradients,
    shape: &BatchShape,
    layer: usize,
) -> Result<Vec<Tensor>> {
    let SavedHeads { raw, q, k, v, lse } = saved;
    let mask = &shape.masks[layer];
    let (dq, dk, dv) =
        attention::backward(&q, &k, &v, &attended, &lse, &dattended, &shape.sequences, shape.heads, mask)?;
    for tensor in [q, k, v, attended, dattended] {
        recycle(tensor)?;
    }
    let products = w.qkv.len();
    let (Some((q, k)), Some((q_norm, k_norm)), Some((dq_norm, dk_norm))) = (raw, &w.head_norms, &grads.head_norms)
    else {
        return shape.join([dq, dk, dv], products, shape.rotation(layer));
    };
    shape.rotate([&dq, &dk], layer, Direction::Backward)?;
    let dq_raw = head_norm::backward(&q, q_norm, shape.norm, &dq, dq_norm)?;
    let dk_raw = head_norm::backward(&k, k_norm, shape.norm, &dk, dk_norm)?;
    for tensor in [q, k, dq, dk] {
        recycle(tensor)?;
    }
    shape.join([dq_raw, dk_raw, dv], products, None)
}
