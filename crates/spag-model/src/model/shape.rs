//! State shared by all blocks of a pass: sizes, RoPE tables, masks, and the batch's positions and sequences on the
//! device.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor, bail};

use super::lengths::{LengthClass, LengthClasses};
use super::scale;
use crate::batch::PackedBatch;
use crate::config::{Architecture, Norms, Position, Rope};
use spag_ops::attention::{Heads, Mask, Sequences, Slopes};
use spag_ops::glu::Activation;
use spag_ops::matmul::Arithmetic;
use spag_ops::pool::recycle;
use spag_ops::qkv::{self, Rotation};
use spag_ops::rms_norm::RmsNorm;
use spag_ops::rope::{Direction, Positions, RopeTable, rotate};

/// Settings of attention and norms, derived from the architecture once.
#[derive(Clone, Debug)]
pub(crate) struct AttentionShape {
    pub(crate) heads: Heads,
    /// The RoPE table of each block, all with the same positions; `None` with other position encodings.
    pub(crate) ropes: Arc<[Option<Arc<RopeTable>>]>,
    pub(crate) lengths: LengthClasses,
    /// The mask of each block.
    pub(crate) masks: Arc<[Mask]>,
    /// The constants of every norm.
    pub(crate) norm: RmsNorm,
    /// The positions of norms in blocks.
    pub(crate) norms: Norms,
    /// The activation of the MLP.
    pub(crate) activation: Activation,
    /// The arithmetic of bf16 attention in the training pass on a CPU.
    pub(crate) attention: Arithmetic,
}

impl AttentionShape {
    pub(crate) fn new(model: &Architecture) -> Result<Self> {
        let slopes = match model.position {
            Position::Rope(_) => None,
            Position::Alibi => Some(Slopes::alibi(model.heads.query)),
        };
        // A window that no sequence can reach has no effect.
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
            ropes: tables(model)?,
            lengths: LengthClasses::of(model),
            masks: model.windows.iter().map(mask).collect::<Result<_>>()?,
            norm: scale::norm(model),
            norms: model.norms,
            activation: model.activation,
            attention: Arithmetic::Bf16,
        })
    }

    /// The positions of rows on `device`, each with the class of its sequence, if RoPE is used.
    pub(crate) fn positions(
        &self,
        rows: impl Iterator<Item = (u32, LengthClass)>,
        device: &Device,
    ) -> Result<Option<Positions>> {
        // All tables have the same rows.
        let Some(table) = self.ropes.iter().flatten().next() else { return Ok(None) };
        let row = |(position, class)| match class {
            LengthClass::Usual => table.row(position, 0),
            LengthClass::Long => table.row(position, 1),
        };
        Ok(Some(Positions::new(&rows.map(row).collect::<Vec<_>>(), table, device)?))
    }
}

/// The RoPE table of each block. Blocks with the same RoPE share one.
fn tables(model: &Architecture) -> Result<Arc<[Option<Arc<RopeTable>>]>> {
    let mut known: Vec<(&Rope, Arc<RopeTable>)> = Vec::new();
    let mut of_block = |layer| {
        let Some(rope) = model.rope(layer) else { return Ok(None) };
        if let Some((_, table)) = known.iter().find(|(other, _)| *other == rope) {
            return Ok(Some(table.clone()));
        }
        let table = RopeTable::new(rope.frequencies(model.heads.dim), model.max_position_embeddings);
        let table = table.in_heads(model.heads.dim)?.with_factor(rope.factor() as f32);
        let table = Arc::new(match rope.long_frequencies(model.heads.dim) {
            Some(long) => table.with_set(long)?,
            None => table,
        });
        known.push((rope, table.clone()));
        Ok(Some(table))
    };
    (0..model.num_hidden_layers).map(&mut of_block).collect()
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
            positions: shape.positions(rows(shape, batch), device)?,
        })
    }

    /// The RoPE of block `layer`, if used.
    pub(super) fn rotation(&self, layer: usize) -> Option<Rotation<'_>> {
        self.positions.as_ref().zip(self.ropes[layer].as_deref())
    }

    /// Applies the RoPE of block `layer` to queries and keys in place.
    pub(super) fn rotate(&self, heads: [&Tensor; 2], layer: usize, direction: Direction) -> Result<()> {
        rotate_all(heads, self.rotation(layer), direction)
    }

    /// Queries, keys and values from three products or a fused one, with RoPE applied.
    pub(super) fn split(&self, products: Vec<Tensor>, rotation: Option<Rotation<'_>>) -> Result<[Tensor; 3]> {
        match <[Tensor; 3]>::try_from(products) {
            Ok(heads) => {
                rotate_all([&heads[0], &heads[1]], rotation, Direction::Forward)?;
                Ok(heads)
            }
            Err(joined) => {
                let heads = qkv::split(only(&joined)?, self.heads, rotation)?;
                joined.into_iter().try_for_each(recycle)?;
                Ok(heads)
            }
        }
    }

    /// The gradients of the products from those of queries, keys and values, with inverse RoPE.
    pub(super) fn join(
        &self,
        heads: [Tensor; 3],
        products: usize,
        rotation: Option<Rotation<'_>>,
    ) -> Result<Vec<Tensor>> {
        if products == heads.len() {
            rotate_all([&heads[0], &heads[1]], rotation, Direction::Backward)?;
            return Ok(heads.into());
        }
        let joined = qkv::join([&heads[0], &heads[1], &heads[2]], self.heads, rotation)?;
        heads.into_iter().try_for_each(recycle)?;
        Ok(vec![joined])
    }
}

/// The position of each row, with the class of its sequence. Classes are told apart in batches of whole sequences only.
fn rows<'a>(shape: &AttentionShape, batch: &'a PackedBatch) -> impl Iterator<Item = (u32, LengthClass)> + 'a {
    let lengths = shape.lengths;
    batch.bounds.windows(2).flat_map(move |bounds| {
        let (first, end) = (bounds[0] as usize, bounds[1] as usize);
        let class = lengths.class(end - first);
        batch.positions[first..end].iter().map(move |position| (*position, class))
    })
}

/// The product of fused layers.
pub(super) fn only(joined: &[Tensor]) -> Result<&Tensor> {
    match joined {
        [one] => Ok(one),
        several => bail!("{} products instead of one", several.len()),
    }
}

fn rotate_all(heads: [&Tensor; 2], rotation: Option<Rotation<'_>>, direction: Direction) -> Result<()> {
    let Some((positions, table)) = rotation else { return Ok(()) };
    heads.into_iter().try_for_each(|x| rotate(x, positions, table, direction))
}
