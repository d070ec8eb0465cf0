//! Where the models of a run are.

use std::path::PathBuf;

use spag_run::{Model, files};

use crate::config::RunConfig;

impl RunConfig {
    /// The folder of a model. A base model that is an imitation model already is both.
    pub(crate) fn folder_of(&self, model: Model) -> PathBuf {
        match model {
            Model::Base => self.base_model.clone(),
            Model::Im if self.imitation.source.is_none() => self.base_model.clone(),
            model => self.run_dir.join(model.stage()).join(files::MODEL),
        }
    }

    /// The models that a finished run has, in the order of training.
    pub(super) fn models(&self) -> impl Iterator<Item = Model> + use<> {
        let spag = (1..=self.epochs).map(Model::Spag);
        [Model::Base, Model::Im].into_iter().chain(spag)
    }
}
