//! The places of an adapter's matrices in a model.

use super::config::LoraConfig;
use super::names::{module_of, weight_of};
use crate::config::Architecture;
use crate::params::{AdapterPlaces, Layout, Place};

impl AdapterPlaces {
    /// The places of an adapter with these settings.
    ///
    /// # Errors
    /// A target module that the model does not have.
    pub fn new(config: &LoraConfig, model: &Architecture) -> Result<Self, String> {
        let (layout, base) = (config.layout(model)?, Layout::new(model));
        let mut layers = Vec::with_capacity(layout.layers.len());
        for (layer, own) in layout.layers.iter().enumerate() {
            let mut places = Vec::new();
            for (at, pair) in own.views.chunks_exact(2).enumerate() {
                let module = module_of(&pair[0]);
                let scale = config.scale(module)?;
                let parts = base.layers[layer].parts_of(&weight_of(module));
                places.extend(parts.into_iter().map(|(part, rows)| Place { part, view: 2 * at, rows, scale }));
            }
            layers.push(places);
        }
        Ok(Self::of(layout, layers))
    }

    /// The names of the modules with matrices.
    pub fn modules(&self) -> Vec<String> {
        let pairs = self.layout().layers.iter().flat_map(|layer| layer.views.chunks_exact(2));
        pairs.map(|pair| module_of(&pair[0]).to_owned()).collect()
    }
}
