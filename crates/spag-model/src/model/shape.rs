//! What all blocks of a pass share: sizes, rotation, masks, and the batch's positions and sequences on the device.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use crate::config::{Architecture, Norms, Position, Rope};
use crate::packed::PackedBatch;
use spag_ops::attention::{Heads, Mask, Sequences, Slopes};
use spag_ops::glu::Activation;
use spag_ops::matmul::Arithmetic;
use spag_ops::rms_norm::RmsNorm;
use spag_ops::rope::{Direction, Positions, RopeTable, rotate};

/// What attention and norms need beside the tensors, derived from the architecture once.
#[derive(Clone, Debug)]
pub(crate) struct AttentionShape {
    pub(crate) heads: Heads,
    /// The rotation of queries and keys of each block, all of the same positions; `None` if positions are not rotations.
    pub(crate) ropes: Arc<[Option<Arc<RopeTable>>]>,
    /// The mask of each block.
    pub(crate) masks: Arc<[Mask]>,
    /// The constants of every norm.
    pub(crate) norm: RmsNorm,
    /// Where blocks have norms.
    pub(crate) norms: Norms,
    /// The activation of the MLP.
    pub(crate) activation: Activation,
    /// How the training pass multiplies queries, keys and values of bf16 on a CPU.
    pub(crate) attention: Arithmetic,
}

impl AttentionShape {
    pub(crate) fn new(model: &Architecture) -> Result<Self> {
        let table =
            |rope: Rope| Arc::new(RopeTable::new(rope.frequencies(model.heads.dim), model.max_position_embeddings));
        let (rope, slopes) = match model.position {
            Position::Rope(rope) => (Some(table(rope)), None),
            Position::Alibi => (None, Some(Slopes::alibi(model.heads.query))),
        };
        let in_window = model.window_rope.map(table).or_else(|| rope.clone());
        let rope_of = |window: &Option<usize>| if window.is_some() { in_window.clone() } else { rope.clone() };
        // A window that no sequence reaches is none.
        let reached = |window: &usize| *window < model.max_position_embeddings;
        let mask = |window: &Option<usize>| {
            let mask = Mask::new(window.filter(reached), slopes.clone())?;
            Ok::<_, candle_core::Error>(match model.attention_scale {
                Some(scale) => mask.with_scale(scale as f32),
                None => mask,
            })
        };
        Ok(Self {
            heads: model.heads,
            ropes: model.windows.iter().map(rope_of).collect(),
            masks: model.windows.iter().map(mask).collect::<Result<_>>()?,
            norm: RmsNorm { eps: model.rms_norm_eps as f32, offset: model.norm_weights.offset() },
            norms: model.norms,
            activation: model.activation,
            attention: Arithmetic::Bf16,
        })
    }

    /// The positions of rows on `device`, if they are rotations.
    pub(crate) fn positions(&self, positions: &[u32], device: &Device) -> Result<Option<Positions>> {
        match self.ropes.first() {
            Some(Some(table)) => Ok(Some(Positions::new(positions, table, device)?)),
            _ => Ok(None),
        }
    }
}

/// The shared inputs of a training pass.
pub(super) struct BatchShape {
    pub(super) heads: Heads,
    pub(super) norm: RmsNorm,
    pub(super) norms: Norms,
    pub(super) activation: Activation,
    pub(super) attention: Arithmetic,
    pub(super) masks: Arc<[Mask]>,
    pub(super) sequences: Sequences,
    ropes: Arc<[Option<Arc<RopeTable>>]>,
    positions: Option<Positions>,
}

impl BatchShape {
    /// Uploads the positions and sequences of `batch` to `device`.
    pub(super) fn new(shape: &AttentionShape, batch: &PackedBatch, device: &Device) -> Result<Self> {
        Ok(Self {
            heads: shape.heads,
            norm: shape.norm,
            norms: shape.norms,
            activation: shape.activation,
            attention: shape.attention,
            masks: shape.masks.clone(),
            sequences: Sequences::tree(&batch.bounds, &batch.parents, device)?,
            ropes: shape.ropes.clone(),
            positions: shape.positions(&batch.positions, device)?,
        })
    }

    /// Rotates every head of `x` in place as block `layer` does, if positions are rotations.
    pub(super) fn rotate(&self, x: &Tensor, layer: usize, direction: Direction) -> Result<()> {
        match (&self.ropes[layer], &self.positions) {
            (Some(table), Some(positions)) => rotate(x, positions, table, direction),
            _ => Ok(()),
        }
    }
}
