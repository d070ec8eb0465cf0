//! Where the matrices of an adapter are, and which part of a model's layers each of them changes.

use std::ops::Range;

use candle_core::Tensor;

use super::config::LoraConfig;
use super::module_of;
use crate::config::Architecture;
use crate::error::{Error, Result};
use crate::params::{Layout, Part};

/// The places of an adapter's matrices for the models of an architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterPlaces {
    layout: Layout,
    /// For each layer, those of its parts.
    layers: Vec<Vec<Place>>,
}

/// The matrices of a part of a layer.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    part: Part,
    /// The view of A; that of B follows.
    view: usize,
    /// Rows of B, which has those of several parts if the checkpoint stores them as one tensor.
    rows: Range<usize>,
    scale: f64,
}

/// The matrices of a linear layer, or their gradients: A [r, I] and B [O, r], with the scale of their product.
pub(crate) struct Pair {
    pub(crate) a: Tensor,
    pub(crate) b: Tensor,
    pub(crate) scale: f64,
}

impl AdapterPlaces {
    /// The places of an adapter with these settings.
    ///
    /// # Errors
    /// Target modules that the model does not have.
    pub fn new(config: &LoraConfig, model: &Architecture) -> Result<Self, String> {
        let (layout, base) = (config.layout(model)?, Layout::new(model));
        let mut layers = Vec::with_capacity(layout.layers.len());
        for (layer, own) in layout.layers.iter().enumerate() {
            let mut places = Vec::new();
            for (at, pair) in own.views.chunks_exact(2).enumerate() {
                let module = module_of(&pair[0]);
                let scale = config.scale(module)?;
                let parts = base.layers[layer].parts_of(&format!("{module}.weight"));
                places.extend(parts.into_iter().map(|(part, rows)| Place { part, view: 2 * at, rows, scale }));
            }
            layers.push(places);
        }
        Ok(Self { layout, layers })
    }

    /// The layout of the matrices.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The names of the modules that have matrices.
    pub fn modules(&self) -> Vec<String> {
        let pairs = self.layout.layers.iter().flat_map(|layer| layer.views.chunks_exact(2));
        pairs.map(|pair| module_of(&pair[0]).to_owned()).collect()
    }

    /// The largest rank.
    pub fn max_rank(&self) -> usize {
        let pairs = self.layout.layers.iter().flat_map(|layer| layer.views.chunks_exact(2));
        pairs.map(|pair| pair[0].shape[0]).max().unwrap_or_default()
    }

    /// The matrices of a part of a layer, if it has an adapter: in the layer's buffer of weights, or of gradients.
    ///
    /// # Errors
    /// A buffer that is too short.
    pub(crate) fn pair(&self, buffer: &Tensor, layer: usize, part: Part) -> Result<Option<Pair>> {
        let places = self.layers.get(layer).ok_or_else(|| Error::Config(format!("no layer {layer} in an adapter")))?;
        let Some(Place { view, rows, scale, .. }) = places.iter().find(|place| place.part == part) else {
            return Ok(None);
        };
        let b = self.layout.view(buffer, layer, view + 1)?.narrow(0, rows.start, rows.len())?;
        Ok(Some(Pair { a: self.layout.view(buffer, layer, *view)?, b, scale: *scale }))
    }
}
