//! The model that the divergence of an on-policy run is measured from, which may be renewed.

use spag_run::Model;
use spag_train::{OnlineLearner, ReferenceModel};

use super::snapshots::{Saves, Snapshots};
use crate::config::{OnlineSettings, RunConfig};
use crate::error::Result;
use crate::run::context::RunContext;

/// Which model is the reference of an update.
#[derive(Clone, Debug)]
pub(super) struct MovingReference {
    settings: OnlineSettings,
    snapshots: Option<Snapshots>,
}

impl MovingReference {
    /// The reference of one learner. The models that it was are in the folder `name` of the run.
    pub(super) fn new(config: &RunConfig, settings: &OnlineSettings, name: &'static str) -> Self {
        let saves = if config.train.config.lora_r.is_some() { Saves::Adapter } else { Saves::Model };
        let every = settings.reference.reference_updates;
        let snapshots = every.map(|every| Snapshots { name, saves, every });
        Self { settings: settings.clone(), snapshots }
    }

    /// Gives the learner the reference of update `update`, if there is one. It follows from the number of the update. If it is a whole
    /// model that `first` has already, both learners share it.
    pub(super) fn open(
        &self,
        run: RunContext<'_>,
        (learner, first): (&mut OnlineLearner, Option<&OnlineLearner>),
        update: usize,
    ) -> Result<()> {
        if self.settings.policy_loss.kl_coeff == 0.0 {
            return Ok(());
        }
        let reference = match (self.settings.reference.of_update(update), &self.snapshots) {
            (0, _) | (_, None) => match &self.settings.reference.reference_model {
                None if run.config.train.config.lora_r.is_some() => ReferenceModel::Base,
                None => ReferenceModel::Whole(run.config.folder_of(Model::Im)),
                Some(folder) => ReferenceModel::Whole(folder.clone()),
            },
            (update, Some(snapshots)) => {
                let folder = snapshots.folder(run.config, update);
                match snapshots.saves {
                    Saves::Model => ReferenceModel::Whole(folder),
                    Saves::Adapter => ReferenceModel::Adapter(folder),
                }
            }
        };
        match (&reference, first) {
            (ReferenceModel::Whole(_), Some(first)) => learner.share_reference(first),
            _ => learner.set_reference(&reference)?,
        }
        Ok(())
    }

    /// Renews the reference after `updates` updates, if it is time. All ranks have to call it.
    pub(super) fn renew(
        &self,
        run: RunContext<'_>,
        (learner, first): (&mut OnlineLearner, Option<&OnlineLearner>),
        updates: usize,
    ) -> Result<()> {
        match &self.snapshots {
            Some(snapshots) if snapshots.is_due(updates, self.settings.updates) => {
                snapshots.save(run, learner, updates)?;
                self.open(run, (learner, first), updates)
            }
            _ => Ok(()),
        }
    }

    /// Deletes the references before that of update `updates`. Earlier checkpoints must be gone.
    pub(super) fn remove_left(&self, config: &RunConfig, updates: usize) -> Result<()> {
        let current = self.settings.reference.of_update(updates);
        self.snapshots.map_or(Ok(()), |snapshots| snapshots.remove_others(config, updates, |update| update == current))
    }
}
