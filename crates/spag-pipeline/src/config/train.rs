//! The settings of a training stage: those of `spag-train`, including how the training is sharded.

use std::ops::Deref;

use spag_train::{JobSettings, TrainConfig};

spag_io::settings! {
    /// `[train]` and `[imitation.train]`: the flags of `spag-train` by name.
    #[derive(clap::Args)]
    pub flags TrainSettings {} + {
        /// The settings that the result depends on.
        pub config: TrainConfig;
        /// The others.
        pub job: JobSettings;
    }
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
