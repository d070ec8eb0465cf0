//! Adapters of an engine: rows of a batch with different adapters over one base model.
//!
//! A pass computes the base products for all rows at once, and adds the low-rank product of each adapter to its rows, bit-identical
//! to the training pass and independent of the rest of the batch.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};

use super::generation_config::AdapterChoice;
use crate::error::{Error, RequestError, Result};
use crate::packed_weights::Place;
use crate::params::{AdapterWeights, LayerLayout, Layout, Unsharded};
use spag_ops::cast::converted;
use spag_ops::kernels;
use spag_ops::low_rank::{AdaptedRows, LowRank, PackedLowRank};

/// An adapter, packed for generation.
pub(super) struct PackedAdapter {
    /// Its number in prefix-sharing roots.
    root: u64,
    /// The matrices of each block, in the order of [`Place::ALL`].
    blocks: Vec<[Option<PackedLowRank>; 4]>,
}

impl PackedAdapter {
    /// Packs the matrices in a number format, for a model with `base`'s layout.
    pub(super) fn new(
        adapter: AdapterWeights<'_>,
        base: &Layout,
        (device, dtype): (&Device, DType),
        root: u64,
    ) -> Result<Self> {
        let matrices = adapter.places.layout();
        if matrices.layers.len() != base.layers.len() {
            let [theirs, ours] = [matrices, base].map(|layout| layout.layers.len().saturating_sub(2));
            return Err(Error::Config(format!("the adapter is for a model of {theirs} blocks, this one has {ours}")));
        }
        let needed = (matrices.len() as u64).saturating_mul(dtype.size_in_bytes() as u64);
        let advice = "remove another adapter, or lower --kv_cache_gib";
        spag_ops::require_room(needed, device, || "an adapter of the engine".to_owned(), advice)?;
        let blocks = 1..base.layers.len().saturating_sub(1);
        let blocks = blocks.map(|layer| {
            if matrices.layers[layer].len == 0 {
                return Ok(Default::default());
            }
            let unsharded = Unsharded::new(adapter.weights, layer, None)?;
            let stored = Stored { adapter, buffer: &unsharded.buffer, layer, device, dtype };
            let [qkv, output, gate_up, down] = Place::ALL.map(|place| stored.pack(place, &base.layers[layer]));
            let packed = [qkv?, output?, gate_up?, down?];
            if let Some(kernels) = kernels::of(device)? {
                // The source may reuse the memory of its layer.
                kernels.synchronize()?;
            }
            Ok(packed)
        });
        Ok(Self { root, blocks: blocks.collect::<Result<_>>()? })
    }

    /// Its number in the prefix-sharing roots of its sequences.
    pub(super) fn root(&self) -> u64 {
        self.root
    }
}

/// A stored layer of an adapter, to be packed.
struct Stored<'a> {
    adapter: AdapterWeights<'a>,
    buffer: &'a Tensor,
    layer: usize,
    device: &'a Device,
    dtype: DType,
}

impl Stored<'_> {
    /// The matrices of a packed linear layer, if any.
    fn pack(&self, place: Place, base: &LayerLayout) -> Result<Option<PackedLowRank>> {
        let (mut matrices, mut first) = (Vec::new(), 0);
        for part in place.parts() {
            let Some([outputs, inputs]) = base.shape(*part) else {
                return Err(Error::Config(format!("the layout of layer {} has no {part:?}", self.layer)));
            };
            let columns = first..first + outputs;
            first = columns.end;
            let Some(pair) = self.adapter.places.pair(self.buffer, self.layer, *part)? else { continue };
            if pair.a.dim(1)? != *inputs || pair.b.dim(0)? != *outputs {
                return Err(Error::Config(format!(
                    "the adapter has matrices {:?} and {:?} for {part:?} of layer {}, which is [{outputs}, {inputs}]",
                    pair.a.dims(),
                    pair.b.dims(),
                    self.layer
                )));
            }
            matrices.push(LowRank { a: self.own(&pair.a)?, b: self.own(&pair.b)?, scale: pair.scale, columns });
        }
        Ok(if matrices.is_empty() { None } else { Some(PackedLowRank::new(&matrices)?) })
    }

    /// A matrix in the engine's number format, in memory that the source does not modify.
    fn own(&self, matrix: &Tensor) -> Result<Tensor> {
        let matrix = converted(&matrix.to_device(self.device)?, self.dtype)?;
        Ok(match kernels::of(self.device)? {
            Some(_) => matrix.force_contiguous()?,
            // Packing copies it anyway.
            None => matrix,
        })
    }
}

/// The adapters loaded in an engine.
#[derive(Default)]
pub(super) struct Adapters {
    pub(super) own: Option<Arc<PackedAdapter>>,
    named: BTreeMap<Arc<str>, Arc<PackedAdapter>>,
    /// The number of roots issued: an adapter never reuses the KV cache of an earlier one with the same name.
    roots: u64,
}

impl Adapters {
    /// Looks up the adapter of a request.
    pub(super) fn find(&self, choice: &AdapterChoice) -> Result<Option<Arc<PackedAdapter>>, RequestError> {
        match choice {
            AdapterChoice::Own => Ok(self.own.clone()),
            AdapterChoice::Base => Ok(None),
            AdapterChoice::Named(name) => match self.named.get(name) {
                Some(adapter) => Ok(Some(adapter.clone())),
                None => Err(RequestError::UnknownAdapter { name: (**name).to_owned(), known: self.known() }),
            },
        }
    }

    /// The end of a message that lists the loaded adapters.
    fn known(&self) -> String {
        let names: Vec<&str> = self.named.keys().map(|name| &**name).collect();
        if names.is_empty() { "; there are none".to_owned() } else { format!("; loaded are {}", names.join(", ")) }
    }

    /// Adds an adapter of this name.
    pub(super) fn insert(&mut self, name: &str, adapter: Arc<PackedAdapter>) {
        self.named.insert(name.into(), adapter);
    }

    /// Removes an adapter.
    pub(super) fn remove(&mut self, name: &str) -> Result<(), RequestError> {
        match self.named.remove(name) {
            Some(_) => Ok(()),
            None => Err(RequestError::UnknownAdapter { name: name.to_owned(), known: self.known() }),
        }
    }

    /// The names, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(|name| &**name)
    }

    pub(super) fn next_root(&mut self) -> u64 {
        self.roots += 1;
        self.roots
    }
}

/// The rows of a pass with adapters.
#[derive(Default)]
pub(super) struct AdapterRows<'a>(Vec<(Range<usize>, &'a PackedAdapter)>);

impl<'a> AdapterRows<'a> {
    /// Adds the next rows, with their adapter if any.
    pub(super) fn push(&mut self, rows: Range<usize>, adapter: Option<&'a PackedAdapter>) {
        let Some(adapter) = adapter else { return };
        match self.0.last_mut() {
            Some((last, own)) if last.end == rows.start && std::ptr::eq(*own, adapter) => last.end = rows.end,
            _ => self.0.push((rows, adapter)),
        }
    }

    /// Whether no row has an adapter.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The matrices of a linear layer of block `layer`, with their rows.
    pub(super) fn at(&self, layer: usize, place: Place) -> Vec<AdaptedRows<'a>> {
        let at = |(rows, adapter): &(Range<usize>, &'a PackedAdapter)| {
            let weight = adapter.blocks.get(layer)?[place as usize].as_ref()?;
            Some(AdaptedRows { rows: rows.clone(), weight })
        };
        self.0.iter().filter_map(at).collect()
    }
}
