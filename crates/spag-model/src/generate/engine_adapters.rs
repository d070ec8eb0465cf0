//! Adapters of a running engine.

use std::sync::Arc;

use super::adapters::PackedAdapter;
use super::engine::Engine;
use super::generation_config::AdapterChoice;
use crate::adapter::Adapter;
use crate::error::{Error, Result};
use crate::params::AdapterWeights;
use spag_ops::kernels;

impl Engine {
    /// Adds an adapter for requests that [name](AdapterChoice::Named) it, while other requests may be running. It is copied, in the
    /// engine's number format.
    ///
    /// # Errors
    /// The name is in use, the adapter is for another architecture, or out of memory. The engine is unchanged.
    pub fn add_adapter(&mut self, name: &str, adapter: &Adapter) -> Result<()> {
        if self.adapters().any(|loaded| loaded == name) {
            return Err(Error::Generation(format!("an adapter `{name}` is loaded already; remove it first")));
        }
        let packed = self.pack(AdapterWeights { places: adapter.places(), weights: adapter.weights() })?;
        self.adapters.insert(name, packed);
        Ok(())
    }

    /// Removes an adapter. Requests submitted before complete with it; its memory is freed after the last of them.
    ///
    /// # Errors
    /// No adapter has this name.
    pub fn remove_adapter(&mut self, name: &str) -> Result<()> {
        Ok(self.adapters.remove(name)?)
    }

    /// The names of its adapters, sorted.
    pub fn adapters(&self) -> impl Iterator<Item = &str> {
        self.adapters.names()
    }

    /// Packs an adapter while holding the device's turn.
    pub(super) fn pack(&mut self, adapter: AdapterWeights<'_>) -> Result<Arc<PackedAdapter>> {
        let kernels = kernels::of(self.runner.device())?;
        let _turn = kernels.as_ref().map(|kernels| kernels.turns().wait());
        let root = self.adapters.next_root();
        Ok(Arc::new(self.runner.pack_adapter(adapter, root)?))
    }

    /// Replaces the engine's own adapter, including for requests that have not started.
    pub(super) fn set_own_adapter(&mut self, own: Option<Arc<PackedAdapter>>) {
        let waiting = self.state.waiting.iter_mut().filter(|sequence| sequence.is_new());
        for sequence in waiting.filter(|sequence| sequence.config.adapter == AdapterChoice::Own) {
            sequence.set_adapter(own.clone());
        }
        self.adapters.own = own;
    }
}
