//! What a training or a run needs before it starts: memory of GPUs and hosts, bounds of its time, disk.

mod assumptions;
mod file;
mod lengths;
mod of_run;
mod on_policy;
mod parts;
mod report;
mod run_time;
mod settings;
mod time;
mod workload;

use std::path::PathBuf;

use serde_json::Value;
use spag_model::ModelConfig;

pub use file::{PLANNED_LENGTH, PlanFile, PlannedFlags, PlannedModel};
pub use of_run::plan_of_run;
pub use workload::PlannedSamples;

use crate::config::{MachineSettings, TrainSettings};
use crate::error::Result;
use report::Report;
use settings::Settings;

/// The plan of a training on GPUs: what `spag plan` prints.
#[derive(Debug)]
pub struct TrainingPlan {
    settings: Settings,
    model: ModelConfig,
}

impl TrainingPlan {
    /// Plans the training of a model, of which `config.json` alone is read. Without a ZeRO stage or a DeepSpeed file, all stages and
    /// offloads are compared.
    ///
    /// # Errors
    /// A file that cannot be read, or settings that contradict each other.
    pub fn new(
        model: PathBuf,
        machine: MachineSettings,
        training: TrainSettings,
        samples: &PlannedSamples,
    ) -> Result<Self> {
        let (settings, model) = Settings::new(model, machine, training, samples)?;
        Ok(Self { settings, model })
    }

    /// Bytes, seconds and settings by name.
    pub fn json(&self) -> Value {
        Report::new(&self.model, &self.settings).json()
    }

    /// The plan for people.
    pub fn text(&self) -> String {
        Report::new(&self.model, &self.settings).text()
    }
}
