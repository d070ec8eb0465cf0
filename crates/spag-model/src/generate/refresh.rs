//! Replaces the weights of a running engine.

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

    /// Replaces the weights by `weights`, layer by layer, with version `version`.
    ///
    /// The engine becomes bit-identical to a new engine with these weights in its own number format: an engine in bf16 rounds
    /// f32 weights, one in f32 converts bf16 weights. On a CPU the weights are packed in the memory of the old ones. Kernels
    /// get a copy, one layer at a time, and graphs are captured again. The source can change or be dropped afterwards. The KV
    /// cache's prefixes are dropped.
    ///
    /// If the weights have an [adapter](WeightSource::adapter), only the adapter is taken, unmerged, as the engine's own: the base
    /// weights are frozen and must be those of the engine. Requests use it unless they specify otherwise ([`AdapterChoice`]).
    /// Weights without an adapter remove the engine's own. Named adapters are kept.
    ///
    /// No sequence is computed by two versions: a refresh is refused while a request is running or preempted; complete
    /// or abort these first. Requests that have not started are kept and use the new weights.
    ///
    /// # Errors
    /// Requests have started, the engine is [quantised](crate::Model::quantised) and the weights have no adapter, or the architecture
    /// differs: the engine is unchanged. The source or the device fails: [`Generate::step`](super::Generate::step) fails until a
    /// refresh succeeds, while requests can still be submitted and aborted.
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
