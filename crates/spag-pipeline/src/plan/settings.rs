//! The resolved settings of a plan.

use std::path::PathBuf;

use serde::Serialize;
use spag_model::ModelConfig;
use spag_model::checkpoint::load_config;
use spag_model::params::AdapterPlaces;
use spag_train::deepspeed::{DeepSpeed, RunFacts};
use spag_train::{Placement, ShardingPlan, ShardingRequest, TrainConfig, ZeroStage};

use super::workload::{PlannedSamples, Workload};
use crate::config::{Figures, Gpu, MachineSettings, TrainSettings};
use crate::error::{Error, Result};

/// Tokens of a micro-batch. The bytes of a larger one could exceed 64 bits.
const TOKENS: usize = 1 << 28;

/// The resolved settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Settings {
    pub(super) model: PathBuf,
    pub(super) gpu: Gpu,
    /// Those of the kind of GPU.
    #[serde(skip)]
    pub(super) figures: Figures,
    pub(super) gpus: usize,
    pub(super) gpus_per_node: usize,
    /// GiB per GPU.
    pub(super) gpu_memory: f64,
    /// GiB per host, if known.
    pub(super) host_memory: Option<f64>,
    /// Gbit/s between hosts, per host.
    pub(super) network: f64,
    #[serde(flatten)]
    pub(super) config: TrainConfig,
    /// The DeepSpeed file's scheduler, which replaces `--lr_scheduler_type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scheduler: Option<&'static str>,
    /// The requested plan; `None` compares all.
    #[serde(skip)]
    pub(super) plan: Option<ShardingPlan>,
    /// What the ranks compute in a step.
    #[serde(skip)]
    pub(super) workload: Workload,
}

impl Settings {
    /// GPUs that share a host.
    pub(super) fn local_gpus(&self) -> usize {
        self.gpus.min(self.gpus_per_node)
    }

    /// Resolves the settings of a training on `samples`, and reads the model's configuration. The kind of GPU follows from its memory
    /// by default.
    ///
    /// # Errors
    /// A file that cannot be read, or settings that contradict each other.
    pub(super) fn new(
        model: PathBuf,
        machine: MachineSettings,
        training: TrainSettings,
        samples: &PlannedSamples,
    ) -> Result<(Self, ModelConfig)> {
        let gpu = machine.gpu.unwrap_or(match machine.gpu_memory {
            Some(memory) if memory <= 48.0 => Gpu::A100Sxm40,
            Some(memory) if memory <= 96.0 => Gpu::A100Sxm80,
            _ => Gpu::H200,
        });
        let figures = gpu.figures().ok_or_else(|| bad_setting("gpu", "cpu", "the plan of a training is for GPUs"))?;
        let TrainSettings { config, job } = training;
        let gpus = machine.gpus.unwrap_or(1);
        let mut settings = Self {
            model,
            gpu,
            figures,
            gpus,
            gpus_per_node: machine.gpus_per_node.unwrap_or(8),
            gpu_memory: machine.gpu_memory.unwrap_or(figures.memory_gib),
            host_memory: machine.host_memory,
            network: machine.network.unwrap_or(200.0),
            workload: Workload::longest(&config, gpus),
            config,
            scheduler: None,
            plan: None,
        };
        settings.check()?;
        if settings.config.quantize.is_some() {
            let problem = "weights under an adapter are quantised on a CPU only, and a plan is for GPUs; leave it out";
            return Err(bad_setting("quantize", "", problem));
        }
        let path = &settings.model;
        let is_config = path.extension().is_some_and(|extension| extension == "json");
        let model = if is_config { ModelConfig::from_file(path) } else { load_config(path) }?;
        settings.config.check_for(&model.architecture)?;
        if let Some(lora) = settings.config.lora(&model.architecture, None)? {
            let fits = AdapterPlaces::new(&lora, &model.architecture);
            fits.map_err(|problem| bad_setting("lora_target_modules", "", &problem))?;
        }
        let (optimizer, parameters) = (job.offload_optimizer, job.offload_param);
        let within = job.shard_within.unwrap_or_default();
        settings.plan = match (job.zero_stage, job.deepspeed) {
            (Some(_), Some(file)) => {
                let problem = "it names a stage, and so does --zero_stage; omit one of them";
                return Err(bad_setting("deepspeed", file.display(), problem));
            }
            (None, Some(file)) => {
                let run = RunFacts { config: &settings.config, world_size: settings.gpus, total_steps: 1000 };
                let file = DeepSpeed::load(&file, &run)?;
                settings.scheduler = file.scheduler_name();
                let file = file.sharding_plan();
                Some(ShardingPlan { within, ..checked_plan(file.stage, file.optimizer, file.parameters)? })
            }
            (Some(stage), None) => {
                let plan = checked_plan(stage, optimizer.unwrap_or_default(), parameters.unwrap_or_default())?;
                Some(ShardingPlan { within, ..plan })
            }
            (None, None) if (optimizer, parameters) != (None, None) => {
                return Err(Error::Malformed {
                    place: "--offload_optimizer, --offload_param".into(),
                    message: "pass --zero_stage too, or omit them to compare all plans".into(),
                });
            }
            (None, None) => None,
        };
        settings.workload = Workload::new(samples, &settings.model, &settings.config, gpus)?;
        Ok((settings, model))
    }

    /// Checks what depends on several settings. The ranges of each are checked where it is read.
    fn check(&self) -> Result<()> {
        let TrainConfig { per_device_train_batch_size, max_length, .. } = self.config;
        let tokens = self.config.tokens_of_pass();
        if tokens > TOKENS {
            let problem = format!("with --max_length {max_length} a pass has {tokens} tokens, more than {TOKENS}");
            return Err(match self.config.max_tokens_per_pass {
                Some(most @ 1..) => bad_setting("max_tokens_per_pass", most, &problem),
                _ => bad_setting("per_device_train_batch_size", per_device_train_batch_size, &problem),
            });
        }
        if self.gpus > self.gpus_per_node && !self.gpus.is_multiple_of(self.gpus_per_node) {
            return Err(bad_setting("gpus", self.gpus, "not a multiple of --gpus_per_node"));
        }
        Ok(())
    }
}

/// A plan whose offloads the stage allows.
fn checked_plan(stage: ZeroStage, optimizer: Placement, parameters: Placement) -> Result<ShardingPlan> {
    ShardingRequest::new(Some(stage), Some(optimizer), parameters, None)?;
    Ok(ShardingPlan { stage, optimizer, parameters, ..ShardingPlan::default() })
}

fn bad_setting(name: &str, value: impl std::fmt::Display, problem: &str) -> Error {
    Error::Malformed { place: format!("--{name} {value}"), message: problem.into() }
}
