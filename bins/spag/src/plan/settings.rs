//! The settings of a plan: flags, which override a plan file.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use spag_cli::{Error, Result, flags};
use spag_model::ModelConfig;
use spag_model::checkpoint::load_config;
use spag_model::dtype::WeightDtype;
use spag_model::params::AdapterPlaces;
use spag_pipeline::{MachineSettings, RunConfig, TrainSettings, read_toml};
use spag_train::deepspeed::{DeepSpeed, RunFacts};
use spag_train::{Placement, ShardingPlan, ShardingRequest, TargetModules, TrainConfig, ZeroStage, limits};

use super::PlanArgs;
use super::hardware::Gpu;

/// Samples of a micro-batch, or micro-batches of a step.
const BATCH: RangeInclusive<usize> = 1..=65_536;
/// Tokens of a micro-batch. The bytes of a larger one could exceed 64 bits.
const TOKENS: usize = 1 << 28;

spag_io::settings! {
    /// A plan file.
    table PlanFile {
        /// The model.
        model: ModelSection;
        /// The hardware.
        hardware: HardwareSection;
        /// The training.
        training: TrainingFlags;
    }

    /// The model of a plan file.
    table ModelSection {
        /// Relative to the plan file.
        config: Option<PathBuf>;
    }

    /// The hardware of a plan file.
    table HardwareSection {
        /// The kind of GPU.
        gpu: Option<Gpu>;
    } + {
        /// The rest.
        machine: MachineSettings;
    }

    /// The training settings, in flags and in a plan file.
    #[derive(Args)]
    pub(super) flags TrainingFlags {
        /// Samples of a micro-batch [default: 8]
        #[arg(value_name = "N")]
        pub(super) per_device_train_batch_size: Option<usize> [BATCH];
        /// Micro-batches of an optimizer step [default: 1]
        #[arg(value_name = "N")]
        pub(super) gradient_accumulation_steps: Option<usize> [BATCH];
        /// Tokens of a sample [default: 2048]
        #[arg(value_name = "N")]
        pub(super) max_length: Option<usize> [1..=1 << 20];
        /// Parameters and activations in bf16
        #[arg(value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_missing_value = "True", value_parser = flags::truth)]
        pub(super) bf16: Option<bool>;
        /// Recompute activations in the backward pass
        #[arg(value_name = "BOOL", num_args = 0..=1, action = ArgAction::Set, default_missing_value = "True", value_parser = flags::truth)]
        pub(super) gradient_checkpointing: Option<bool>;
        /// Number format in which the optimizer gets gradients: f32, or bf16, in which half as many bytes are copied to the host
        #[arg(value_name = "TYPE")]
        pub(super) optim_grad_dtype: Option<WeightDtype>;
        /// Train a LoRA adapter of this rank over frozen weights
        #[arg(value_name = "N", help_heading = "Adapter")]
        pub(super) lora_r: Option<usize> [limits::LORA_R];
        /// DeepSpeed file with the ZeRO settings
        #[arg(value_name = "FILE")]
        pub(super) deepspeed: Option<PathBuf>;
        /// What is sharded over the ranks: 0 nothing, 1 the optimizer state, 2 gradients too, 3 parameters too
        #[arg(value_name = "STAGE")]
        pub(super) zero_stage: Option<ZeroStage>;
        /// Where the optimizer state is stored: none (on the device) or cpu; requires --zero_stage
        #[arg(value_name = "PLACE")]
        pub(super) offload_optimizer: Option<Placement>;
        /// Where the parameters are stored between their uses: none (on the device) or cpu; requires --zero_stage 3
        #[arg(value_name = "PLACE")]
        pub(super) offload_param: Option<Placement>;
    } + {
        /// The linear layers with an adapter.
        pub(super) lora_target_modules: TargetModules;
    }
}

/// The resolved settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Settings {
    pub(super) model: PathBuf,
    pub(super) gpu: Gpu,
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
}

/// The error of the configuration of a run in place of a plan; `None` for other files.
fn of_run(path: &Path) -> Option<Error> {
    RunConfig::load_to_plan(path, &[]).ok()?;
    let (flag, file) = (path.display().to_string(), path.display());
    Some(Error::BadValue { flag, problem: format!("this is the configuration of a run; write spag run {file} --plan") })
}

impl Settings {
    /// GPUs that share a host.
    pub(super) fn local_gpus(&self) -> usize {
        self.gpus.min(self.gpus_per_node)
    }

    /// Joins flags and plan file, and reads the model's configuration.
    ///
    /// # Errors
    /// A file that cannot be read, an unknown key, no model, or settings that contradict each other.
    pub(super) fn of_flags(args: PlanArgs) -> Result<(Self, ModelConfig)> {
        let mut plan_file = None;
        let (file, model) = match args.config {
            Some(path) if path.extension().is_some_and(|end| end == "toml") => {
                let mut file: PlanFile =
                    read_toml(&path).map_err(|error| of_run(&path).unwrap_or_else(|| error.into()))?;
                let folder = path.parent().unwrap_or(Path::new(""));
                file.training.deepspeed = file.training.deepspeed.map(|file| folder.join(file));
                let model = file.model.config.as_ref().map(|config| folder.join(config));
                plan_file = Some(path);
                (file, model)
            }
            other => (PlanFile::default(), other),
        };
        let Some(model) = args.model_name_or_path.or(model) else {
            let problem = "no model is named: pass a config.json, a plan file, or --model_name_or_path";
            return Err(Error::BadValue { flag: "spag plan".into(), problem: problem.into() });
        };
        let defaults = TrainingFlags { max_length: Some(2048), ..TrainingFlags::default() };
        let machine = layered(&[file.hardware.machine, args.machine])?;
        let training = layered(&[defaults, file.training, args.training])?;
        Self::new(model, args.gpu.or(file.hardware.gpu), machine, training).map_err(|error| match (&plan_file, error) {
            (Some(path), Error::BadValue { flag, problem }) => {
                Error::BadValue { flag: path.display().to_string(), problem: format!("{flag}: {problem}") }
            }
            (_, error) => error,
        })
    }

    /// Resolves the settings of a training, and reads the model's configuration. The kind of GPU follows from its memory by
    /// default.
    ///
    /// # Errors
    /// A file that cannot be read, or settings that contradict each other.
    pub(super) fn new(
        model: PathBuf,
        gpu: Option<Gpu>,
        machine: MachineSettings,
        training: TrainSettings,
    ) -> Result<(Self, ModelConfig)> {
        let gpu = gpu.unwrap_or(match machine.gpu_memory {
            Some(memory) if memory <= 48.0 => Gpu::A100Sxm40,
            Some(memory) if memory <= 96.0 => Gpu::A100Sxm80,
            _ => Gpu::H200,
        });
        let TrainSettings { config, job } = training;
        let mut settings = Self {
            model,
            gpu,
            gpus: machine.gpus.unwrap_or(1),
            gpus_per_node: machine.gpus_per_node.unwrap_or(8),
            gpu_memory: machine.gpu_memory.unwrap_or(gpu.figures().memory_gib),
            host_memory: machine.host_memory,
            network: machine.network.unwrap_or(200.0),
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
        if let Some(lora) = settings.config.lora(&model.architecture, None)? {
            let fits = AdapterPlaces::new(&lora, &model.architecture);
            fits.map_err(|problem| bad_setting("lora_target_modules", "", &problem))?;
        }
        let (optimizer, parameters) = (job.offload_optimizer, job.offload_param);
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
                Some(checked_plan(file.stage, file.optimizer, file.parameters)?)
            }
            (Some(stage), None) => {
                Some(checked_plan(stage, optimizer.unwrap_or_default(), parameters.unwrap_or_default())?)
            }
            (None, None) if (optimizer, parameters) != (None, None) => {
                return Err(Error::BadValue {
                    flag: "--offload_optimizer, --offload_param".into(),
                    problem: "pass --zero_stage too, or omit them to compare all plans".into(),
                });
            }
            (None, None) => None,
        };
        Ok((settings, model))
    }

    /// Checks what depends on several settings. The ranges of each are checked where it is read.
    fn check(&self) -> Result<()> {
        let TrainConfig { per_device_train_batch_size, max_length, .. } = self.config;
        let tokens = per_device_train_batch_size.saturating_mul(max_length);
        if tokens > TOKENS {
            let problem =
                format!("with --max_length {max_length} a micro-batch has {tokens} tokens, more than {TOKENS}");
            return Err(bad_setting("per_device_train_batch_size", per_device_train_batch_size, &problem));
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
    Ok(ShardingPlan { stage, optimizer, parameters })
}

/// Settings that are given in layers, of which later ones win.
fn layered<L: Serialize, T: DeserializeOwned>(layers: &[L]) -> Result<T> {
    let merge = || {
        let mut given = Map::new();
        for layer in layers {
            given.extend(
                serde_json::from_value::<Map<_, _>>(serde_json::to_value(layer)?)?
                    .into_iter()
                    .filter(|(_, value)| !value.is_null()),
            );
        }
        serde_json::from_value(Value::Object(given))
    };
    merge().map_err(|error: serde_json::Error| Error::BadValue { flag: "spag plan".into(), problem: error.to_string() })
}

fn bad_setting(name: &str, value: impl std::fmt::Display, problem: &str) -> Error {
    Error::BadValue { flag: format!("--{name} {value}"), problem: problem.into() }
}
