//! Writing a trained model, or its adapter, without the state of the training.

use std::path::Path;

use spag_model::Tokenizer;
use spag_model::checkpoint::{WriteOptions, save_checkpoint};
use spag_model::params::WeightSource;
use spag_run::Provenance;

use crate::checkpoint::gather_layers;
use crate::error::{Error, Result};
use crate::learner::Learner;

/// A learner whose weights are written, by rank 0. All ranks have to call the same functions.
pub(crate) struct FinishedModel<'a> {
    pub(crate) learner: &'a Learner,
    pub(crate) tokenizer: &'a Tokenizer,
    /// The record of the model's data, written beside the weights.
    pub(crate) made_from: &'a Provenance,
    pub(crate) options: WriteOptions,
}

impl FinishedModel<'_> {
    /// Writes the model to a folder: with an adapter the sum, which rank 0 makes a layer at a time.
    pub(crate) fn write_model(&self, dir: &Path) -> Result<()> {
        let adapter = self.learner.trained_adapter()?;
        let sum = adapter.as_ref().zip(self.learner.frozen()).map(|(adapter, base)| adapter.merged_with(base));
        if self.learner.group().rank() > 0 {
            // Frozen weights are whole on every rank.
            return if sum.is_some() { Ok(()) } else { gather_layers(self.learner.trained()) };
        }
        self.begin(dir)?;
        let weights: &dyn WeightSource = sum.as_ref().map_or(self.learner.trained(), |sum| sum);
        save_checkpoint(self.learner.network().config(), weights, Some(self.tokenizer), dir, self.options)?;
        Ok(())
    }

    /// Writes the adapter to a folder of PEFT; nothing if all weights are trained.
    pub(crate) fn write_adapter(&self, dir: &Path) -> Result<()> {
        let Some(adapter) = self.learner.adapter() else { return Ok(()) };
        if self.learner.group().rank() > 0 {
            return gather_layers(self.learner.trained());
        }
        self.begin(dir)?;
        adapter.save(self.learner.trained(), dir, self.options)?;
        Ok(())
    }

    fn begin(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
        Ok(self.made_from.write_of(dir)?)
    }
}
