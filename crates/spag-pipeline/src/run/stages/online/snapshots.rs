//! Models of the run at earlier updates, in a folder of the run: those of the pool, and those that the divergence is measured from.

use std::path::PathBuf;
use std::{fs, io};

use spag_train::OnlineLearner;

use crate::config::RunConfig;
use crate::error::{Error, Result};
use crate::run::context::RunContext;

/// What a snapshot has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Saves {
    /// The whole model.
    Model,
    /// The adapter that is trained.
    Adapter,
}

/// The folder of the models of earlier updates for one use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshots {
    /// Its name in the run's folder.
    pub(super) name: &'static str,
    pub(super) saves: Saves,
    /// Updates between two models.
    pub(super) every: usize,
}

impl Snapshots {
    /// The folder of the model after `update` updates.
    pub(super) fn folder(&self, config: &RunConfig, update: usize) -> PathBuf {
        config.run_dir.join(self.name).join(format!("update-{update}"))
    }

    /// Whether a model is saved after `updates` updates of `last`, after which nothing reads one.
    pub(super) fn is_due(&self, updates: usize, last: usize) -> bool {
        updates.is_multiple_of(self.every) && updates < last
    }

    /// Saves the learner's model after `updates` updates. All ranks have to call it.
    pub(super) fn save(&self, run: RunContext<'_>, learner: &OnlineLearner, updates: usize) -> Result<()> {
        let folder = self.folder(run.config, updates);
        match self.saves {
            Saves::Adapter => learner.write_adapter(&folder)?,
            Saves::Model => learner.write_model(&folder)?,
        }
        run.ranks.barrier()
    }

    /// Deletes the models up to `updates` updates that `is_used` does not name. Earlier checkpoints, which may name them, must be gone.
    pub(super) fn remove_others(
        &self,
        config: &RunConfig,
        updates: usize,
        is_used: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let left = (1..=updates / self.every).map(|at| at * self.every).filter(|update| !is_used(*update));
        left.map(|update| self.folder(config, update)).try_for_each(|folder| match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove it", folder)(error)),
            _ => Ok(()),
        })
    }
}
