//! What all blocks of a pass share: sizes, rotation, masks, and the batch's positions and sequences on the device.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use crate::config::{Architecture, Norms, Position};
use crate::ops::attention::{Heads, Mask, Sequences, Slopes};
use crate::ops::rope::{Direction, Positions, RopeTable, rotate};
use crate::packed::PackedBatch;

/// What attention needs beside the tensors, derived from the architecture once.
#[derive(Clone, Debug)]
pub(crate) struct AttentionShape {
    pub(crate) heads: Heads,
    /// The rotation of queries and keys; `None` if positions are not rotations.
    pub(crate) rope: Option<Arc<RopeTable>>,
    /// The mask of each block.
    pub(crate) masks: Arc<[Mask]>,
    /// ε of every norm.
    pub(crate) eps: f32,
    /// Where blocks have norms.
    pub(crate) norms: Norms,
}

impl AttentionShape {
    pub(crate) fn new(model: &Architecture) -> Result<Self> {
        let (rope, slopes) = match model.position {
            Position::Rope(rope) => {
                let table = RopeTable::new(rope.frequencies(model.heads.dim), model.max_position_embeddings);
                (Some(Arc::new(table)), None)
            }
            Position::Alibi => (None, Some(Slopes::alibi(model.heads.query))),
        };
        // A window that no sequence reaches is none.
        let reached = |window: &usize| *window < model.max_position_embeddings;
        let masks: Result<Arc<[Mask]>> =
            model.windows.iter().map(|window| Mask::new(window.filter(reached), slopes.clone())).collect();
        Ok(Self { heads: model.heads, rope, masks: masks?, eps: model.rms_norm_eps as f32, norms: model.norms })
    }
}

/// The shared inputs of a training pass.
pub(super) struct BatchShape {
    pub(super) heads: Heads,
    pub(super) eps: f32,
    pub(super) norms: Norms,
    pub(super) masks: Arc<[Mask]>,
    pub(super) sequences: Sequences,
    rotation: Option<(Arc<RopeTable>, Positions)>,
}

impl BatchShape {
    /// Uploads the positions and sequences of `batch` to `device`.
    pub(super) fn new(shape: &AttentionShape, batch: &PackedBatch, device: &Device) -> Result<Self> {
        let rotation = match &shape.rope {
            Some(rope) => Some((rope.clone(), Positions::new(&batch.positions, rope, device)?)),
            None => None,
        };
        Ok(Self {
            heads: shape.heads,
            eps: shape.eps,
            norms: shape.norms,
            masks: shape.masks.clone(),
            sequences: Sequences::new(&batch.bounds, device)?,
            rotation,
        })
    }

    /// Rotates every head of `x` in place, if positions are rotations.
    pub(super) fn rotate(&self, x: &Tensor, direction: Direction) -> Result<()> {
        match &self.rotation {
            Some((table, positions)) => rotate(x, positions, table, direction),
            None => Ok(()),
        }
    }
}
