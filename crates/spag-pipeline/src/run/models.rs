//! Where the models of a run are.

use std::path::PathBuf;

use spag_game::SEATS;
use spag_run::{Model, files};

use crate::config::{Policies, RunConfig};

impl RunConfig {
    /// The folder of a model: that of the first seat, if each has its own. A base model that is an imitation model already is both.
    pub(crate) fn folder_of(&self, model: Model) -> PathBuf {
        match model {
            Model::Base => self.base_model.clone(),
            Model::Im if self.imitation.source.is_none() => self.base_model.clone(),
            model => self.run_dir.join(model.stage()).join(files::MODEL),
        }
    }

    /// The folder of a model for one of the seats, which differ if an on-policy run trains a policy for each.
    pub(crate) fn folder_for(&self, model: Model, seat: usize) -> PathBuf {
        let stage = |model: Model| self.run_dir.join(model.stage());
        match (model, seat) {
            (Model::Spag(_), 1..) if self.policies() == Policies::Seats => {
                stage(model).join(files::SECOND_SEAT).join(files::MODEL)
            }
            (model, _) => self.folder_of(model),
        }
    }

    /// The folders of a model, each once.
    pub(super) fn folders_of(&self, model: Model) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = (0..SEATS).map(|seat| self.folder_for(model, seat)).collect();
        folders.dedup();
        folders
    }

    /// How many policies the run trains. Offline runs train one.
    pub(crate) fn policies(&self) -> Policies {
        self.online.as_ref().map_or(Policies::One, |online| online.policies)
    }

    /// The models that a finished run has, in the order of training.
    pub(super) fn models(&self) -> impl Iterator<Item = Model> + use<> {
        let spag = (1..=self.epochs).map(Model::Spag);
        [Model::Base, Model::Im].into_iter().chain(spag)
    }
}
