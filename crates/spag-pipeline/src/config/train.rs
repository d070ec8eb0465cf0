//! The settings of a training stage: those of `spag-train`, including how the training is sharded.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize};
use spag_train::{JobSettings, TrainConfig};

use super::flat::{self, Part};

/// `[train]` and `[imitation.train]`: the flags of `spag-train` by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainSettings {
    /// The settings that the result depends on.
    #[serde(flatten)]
    pub config: TrainConfig,
    /// The others.
    #[serde(flatten)]
    pub job: JobSettings,
}

impl TrainSettings {
    /// `config` with the defaults of the others.
    pub fn new(config: TrainConfig) -> Self {
        Self { config, job: JobSettings::default() }
    }
}

impl Deref for TrainSettings {
    type Target = TrainConfig;

    fn deref(&self) -> &TrainConfig {
        &self.config
    }
}

impl<'de> Deserialize<'de> for TrainSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let [config, job] = flat::read(deserializer, [Part::new::<TrainConfig>(), Part::new::<JobSettings>()])?;
        Ok(Self { config: config.finish()?, job: job.finish()? })
    }
}
