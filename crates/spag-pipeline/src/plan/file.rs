//! Plan files: TOML with a model, machines and the flags of a training.

use std::path::{Path, PathBuf};

use spag_train::TrainConfig;

use super::workload::PlannedSamples;
use crate::config::{MachineSettings, RunConfig, TrainSettings, read_toml};
use crate::error::{Error, Result};

/// Tokens of a sample that a plan assumes if nothing else is said: the paper's.
pub const PLANNED_LENGTH: usize = 2048;

spag_io::settings! {
    /// A plan file.
    pub table PlanFile {
        /// The model.
        pub model: PlannedModel;
        /// The machines.
        pub hardware: MachineSettings;
        /// The training.
        pub training: PlannedFlags;
    }

    /// The model of a plan file.
    pub table PlannedModel {
        /// Its folder or `config.json`, relative to the plan file.
        pub config: Option<PathBuf>;
    }

    /// The training of a plan file: the flags of `spag-train` by name.
    pub table PlannedFlags {} + {
        /// Those that are absent have the defaults of `spag-train`, but for the length of samples.
        pub settings: TrainSettings = TrainSettings::new(TrainConfig {
            max_length: PLANNED_LENGTH, ..TrainConfig::default()
        });
        /// The samples.
        pub samples: PlannedSamples;
    }
}

impl PlanFile {
    /// Reads a plan file. Its paths become relative to the current folder.
    ///
    /// # Errors
    /// It cannot be read, has an unknown key or a wrong value, or is the configuration of a run.
    pub fn load(path: &Path) -> Result<Self> {
        let mut file: Self = read_toml(path).map_err(|error| of_run(path).unwrap_or(error))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let deepspeed = &mut file.training.settings.job.deepspeed;
        *deepspeed = deepspeed.take().map(|file| folder.join(file));
        file.model.config = file.model.config.map(|config| folder.join(config));
        let samples = &mut file.training.samples.train_data_path;
        *samples = samples.iter().map(|samples| folder.join(samples)).collect();
        Ok(file)
    }
}

/// The error of the configuration of a run in place of a plan; `None` for other files.
fn of_run(path: &Path) -> Option<Error> {
    RunConfig::load_to_plan(path, &[]).ok()?;
    let (place, file) = (path.display().to_string(), path.display());
    Some(Error::Malformed {
        place,
        message: format!("this is the configuration of a run; write spag run {file} --plan"),
    })
}
