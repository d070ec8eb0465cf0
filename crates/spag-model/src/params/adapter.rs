//! Maps an adapter's matrices to the parts of a model's layers.

use std::ops::Range;

use candle_core::Tensor;

use super::{Layout, Part};
use crate::error::{Error, Result};

/// The places of an adapter's matrices in models of an architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterPlaces {
    layout: Layout,
    /// For each layer, the places of its parts.
    layers: Vec<Vec<Place>>,
}

/// The matrices of a part of a layer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) part: Part,
    /// The view of A, followed by that of B.
    pub(crate) view: usize,
    /// Rows of B, which stacks several parts if the checkpoint stores them as one tensor.
    pub(crate) rows: Range<usize>,
    pub(crate) scale: f64,
}

/// The matrices of a linear layer, or their gradients: A [r, I] and B [O, r], with the scale of their product.
pub(crate) struct Pair {
    pub(crate) a: Tensor,
    pub(crate) b: Tensor,
    pub(crate) scale: f64,
}

impl AdapterPlaces {
    /// The places of matrices in this layout: A and B of each pair, adjacent.
    pub(crate) fn of(layout: Layout, layers: Vec<Vec<Place>>) -> Self {
        Self { layout, layers }
    }

    /// The layout of the matrices.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The largest rank.
    pub fn max_rank(&self) -> usize {
        let pairs = self.layout.layers.iter().flat_map(|layer| layer.views.chunks_exact(2));
        pairs.map(|pair| pair[0].shape[0]).max().unwrap_or_default()
    }

    /// The matrices of a part of a layer, if it has an adapter, as views of the layer's buffer of weights or
    /// gradients.
    ///
    /// # Errors
    /// The buffer is too short.
    pub(crate) fn pair(&self, buffer: &Tensor, layer: usize, part: Part) -> Result<Option<Pair>> {
        let places = self.layers.get(layer).ok_or_else(|| Error::Config(format!("no layer {layer} in an adapter")))?;
        let Some(Place { view, rows, scale, .. }) = places.iter().find(|place| place.part == part) else {
            return Ok(None);
        };
        let b = self.layout.view(buffer, layer, view + 1)?.narrow(0, rows.start, rows.len())?;
        Ok(Some(Pair { a: self.layout.view(buffer, layer, *view)?, b, scale: *scale }))
    }
}
