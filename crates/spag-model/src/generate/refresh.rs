//! New weights in a running engine.

use super::engine::Engine;
#[cfg(doc)]
use super::generation_config::AdapterChoice;
use super::weight_state::WeightState;
use crate::error::{Error, Result};
use crate::params::WeightSource;
use spag_ops::kernels;

impl Engine {
    /// Version of the weights: 0 for those that the engine was created with. Completions report it.
    pub fn version(&self) -> u64 {
        match self.weights {
            WeightState::Version(version) | WeightState::Mixed(version) => version,
        }
    }

    /// Replaces the weights by those of `weights`, layer by layer, and calls them `version`.
    ///
    /// The engine computes bit by bit what a new engine with these weights in its own number format computes: an engine in
    /// bf16 rounds weights in f32, one in f32 widens weights in bf16. On a CPU the weights are packed in the memory of the old
    /// ones. Kernels get a copy, one layer at a time, and graphs are captured again. The source can change or be dropped
    /// afterwards. All prefixes leave the KV cache.
    ///
    /// Of weights with an [adapter](WeightSource::adapter) only the adapter is taken, unmerged, as the engine's own: the others are
    /// frozen, and must be those that the engine has. Requests run with it unless they say otherwise
    /// ([`AdapterChoice`]). Weights without an adapter leave the engine without its own. Named adapters stay.
    ///
    /// No sequence is computed by two versions: a refresh is refused while a request runs or waits after a preemption.
    /// Complete or abort these first. Requests that have not started stay, and are completed by the new weights.
    ///
    /// # Errors
    /// Requests that have started, weights without an adapter for an engine of [quantised](crate::Model::quantised) ones, or weights of
    /// another architecture: the engine is as before. A failure of the source or
    /// of the device: [`Generate::step`](super::Generate::step) fails until a refresh succeeds, while requests can still be
    /// submitted and aborted.
    pub fn refresh(&mut self, weights: &dyn WeightSource, version: u64) -> Result<()> {
        let preempted = self.state.waiting.iter().filter(|sequence| !sequence.is_new()).count();
        let started = self.state.running.len() + preempted;
        if started > 0 {
            return Err(Error::Generation(format!(
                "{started} requests have started with version {} of the weights; complete or abort them before a refresh",
                self.version()
            )));
        }
        self.runner.check_refresh(weights)?;
        if let Some(adapter) = weights.adapter() {
            self.weights.check()?;
            let own = self.pack(adapter)?;
            self.state.cache.clear();
            self.set_own_adapter(Some(own));
            self.weights = WeightState::Version(version);
            return Ok(());
        }
        let kernels = kernels::of(self.runner.device())?;
        let _turn = kernels.as_ref().map(|kernels| kernels.turns().wait());
        self.weights = WeightState::Mixed(version);
        self.state.cache.clear();
        self.set_own_adapter(None);
        self.runner.refresh(weights)?;
        self.weights = WeightState::Version(version);
        Ok(())
    }
}
