//! The models of a run and where they are.

use std::path::PathBuf;

use crate::config::RunConfig;

/// A model of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    /// The base model, which is not copied.
    Base,
    /// The imitation model.
    Im,
    /// The model of an epoch, from 1.
    Spag(usize),
}

impl Model {
    /// The stage that makes it.
    pub(super) fn stage(self) -> String {
        match self {
            Self::Base => "base".to_owned(),
            Self::Im => "im".to_owned(),
            Self::Spag(epoch) => format!("spag-{epoch}"),
        }
    }

    /// The name in the report.
    pub(super) fn name(self) -> String {
        match self {
            Self::Base => "base".to_owned(),
            model => model.stage().to_uppercase(),
        }
    }

    /// The model that plays the games which this one is trained on. `None` if no model of the run plays them.
    pub(super) fn before(self) -> Option<Self> {
        match self {
            Self::Base | Self::Im => None,
            Self::Spag(epoch) => Some(if epoch <= 1 { Self::Im } else { Self::Spag(epoch - 1) }),
        }
    }

    /// Its folder. A base model that is an imitation model already is both.
    pub(super) fn folder(self, config: &RunConfig) -> PathBuf {
        match self {
            Self::Base => config.base_model.clone(),
            Self::Im if config.imitation.source.is_none() => config.base_model.clone(),
            model => config.run_dir.join(model.stage()).join(MODEL),
        }
    }
}

/// The folder of a stage's model in the folder of the stage.
pub(super) const MODEL: &str = "model";

/// The models that a finished run has, in the order of training.
pub(super) fn all(config: &RunConfig) -> impl Iterator<Item = Model> {
    let spag = (1..=config.epochs).map(Model::Spag);
    [Model::Base, Model::Im].into_iter().chain(spag)
}
