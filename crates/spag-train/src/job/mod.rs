//! A training run from files to files: `spag-train`, and every training stage of the loop.

mod first_adapter;
mod notes;
mod output;
mod provenance;
mod run;

use std::path::{Path, PathBuf};

use serde::Serialize;
use spag_chat::TemplateSettings;
use spag_model::tokenizer::BosRule;
use spag_ops::DeviceChoice;

use crate::config::{Placement, ShardWithin, TrainConfig, ZeroStage};

pub use run::{run, run_on};

/// The files, the device and the settings of a training run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainJob {
    /// Folder of the model that is trained.
    pub model_name_or_path: PathBuf,
    /// Folder of the adapter that training starts with; it says the settings of the adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<PathBuf>,
    /// Folder of the frozen reference model; `None` is the model before the first step.
    pub ref_model_name_or_path: Option<PathBuf>,
    /// Sample files, JSON lists or JSONL, read one after another.
    pub train_data_path: Vec<PathBuf>,
    /// Sample files for evaluation.
    pub eval_data_path: Vec<PathBuf>,
    /// Folder of `metrics.jsonl`, TensorBoard events, ℓ_ref and checkpoints.
    pub output_dir: PathBuf,
    /// Folder of the finished model; `None` is `output_dir`.
    pub model_dir: Option<PathBuf>,
    /// DeepSpeed file: checked against the settings here, and written resolved.
    pub deepspeed: Option<PathBuf>,
    /// What is sharded over the ranks; `None` is the stage of the DeepSpeed file, or 0 without one.
    pub zero_stage: Option<ZeroStage>,
    /// The ranks that it is sharded over.
    #[serde(skip_serializing_if = "spag_io::is_default")]
    pub shard_within: ShardWithin,
    /// Where the parameters of ZeRO stage 3 are stored between their uses.
    pub offload_param: Placement,
    /// Folder of TensorBoard events; `None` writes none.
    pub logging_dir: Option<PathBuf>,
    /// Whether samples begin with BOS.
    pub add_bos_token: BosRule,
    /// What the model's chat template is rendered with.
    #[serde(flatten)]
    pub template: TemplateSettings,
    /// The device that trains.
    pub device: DeviceChoice,
    /// Where the optimizer's state is stored; `None` chooses by free memory. The output folder records the choice.
    pub offload_optimizer: Option<Placement>,
    /// Whether an earlier run is resumed.
    #[serde(skip)]
    pub start: Start,
    /// The settings.
    #[serde(flatten)]
    pub config: TrainConfig,
}

/// How a run starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// From the model; refused if the output folder has checkpoints.
    #[default]
    New,
    /// From the model; deletes checkpoints in the output folder.
    Overwrite,
    /// From the last checkpoint in the output folder, or from the model if there is none.
    Latest,
    /// From this checkpoint.
    From(PathBuf),
}

impl TrainJob {
    /// A new run of `config` on one file of samples, with all output in one folder.
    pub fn new(
        model: impl Into<PathBuf>,
        samples: impl Into<PathBuf>,
        output_dir: impl Into<PathBuf>,
        config: TrainConfig,
    ) -> Self {
        Self {
            model_name_or_path: model.into(),
            adapter: None,
            ref_model_name_or_path: None,
            train_data_path: vec![samples.into()],
            eval_data_path: Vec::new(),
            output_dir: output_dir.into(),
            model_dir: None,
            deepspeed: None,
            zero_stage: None,
            shard_within: ShardWithin::All,
            offload_param: Placement::Device,
            logging_dir: None,
            add_bos_token: BosRule::default(),
            template: TemplateSettings::default(),
            device: DeviceChoice::default(),
            offload_optimizer: None,
            start: Start::New,
            config,
        }
    }

    /// Folder of the frozen reference model.
    fn reference_dir(&self) -> &Path {
        self.ref_model_name_or_path.as_deref().unwrap_or(&self.model_name_or_path)
    }
}
