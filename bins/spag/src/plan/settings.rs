//! What is planned: from a plan file, and flags that go before it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use spag_model::{Activations, OptimizerPlace, ParameterPlace, Sharding, TrainingSettings, WeightDtype};
use spag_train::deepspeed::{DeepSpeed, Device, Flags};

use super::PlanArgs;
use super::hardware::Gpu;
use spag_cli::{Error, Result};

/// A plan file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PlanFile {
    model: ModelSection,
    hardware: HardwareSection,
    training: TrainingSection,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ModelSection {
    /// Beside the plan file, unless it is absolute.
    config: Option<PathBuf>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HardwareSection {
    gpu: Option<Gpu>,
    gpus: Option<usize>,
    gpus_per_node: Option<usize>,
    gpu_memory: Option<f64>,
    host_memory: Option<f64>,
    network: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TrainingSection {
    per_device_train_batch_size: Option<usize>,
    gradient_accumulation_steps: Option<usize>,
    max_length: Option<usize>,
    bf16: Option<bool>,
    gradient_checkpointing: Option<bool>,
    deepspeed: Option<PathBuf>,
    zero_stage: Option<u8>,
    offload_optimizer: Option<Place>,
    offload_param: Option<Place>,
}

/// Where a part of the state lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Place {
    /// On the device.
    None,
    /// In the host's memory.
    Cpu,
}

/// A stage with its offloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) sharding: Sharding,
    pub(crate) optimizer: OptimizerPlace,
    pub(crate) parameters: ParameterPlace,
}

impl Choice {
    /// Every one that there is.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for sharding in Sharding::ALL {
            for optimizer in [OptimizerPlace::Device, OptimizerPlace::Host] {
                all.push(Self { sharding, optimizer, parameters: ParameterPlace::Device });
            }
            // Parameters on the host are updated there.
            if sharding == Sharding::Parameters {
                all.push(Self { sharding, optimizer: OptimizerPlace::Host, parameters: ParameterPlace::Host });
            }
        }
        all
    }

    /// The flags of spag-train that ask for it.
    pub(crate) fn flags(&self) -> String {
        let place = |host: bool| if host { "cpu" } else { "none" };
        let stage = self.sharding.stage();
        let optimizer = place(self.optimizer == OptimizerPlace::Host);
        let parameters = place(self.parameters == ParameterPlace::Host);
        format!("--zero_stage {stage} --offload_optimizer {optimizer} --offload_param {parameters}")
    }
}

/// What is planned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Settings {
    pub(crate) model: PathBuf,
    pub(crate) gpu: Gpu,
    pub(crate) gpus: usize,
    pub(crate) gpus_per_node: usize,
    /// GiB of one GPU.
    pub(crate) gpu_memory: f64,
    /// GiB of one host; unknown where it is not said.
    pub(crate) host_memory: Option<f64>,
    /// Gbit/s between machines, per machine.
    pub(crate) network: f64,
    pub(crate) per_device_train_batch_size: usize,
    pub(crate) gradient_accumulation_steps: usize,
    pub(crate) max_length: usize,
    pub(crate) bf16: bool,
    pub(crate) gradient_checkpointing: bool,
    /// The one that is asked for; all where none is.
    #[serde(skip)]
    pub(crate) choice: Option<Choice>,
}

impl Settings {
    pub(crate) fn dtype(&self) -> WeightDtype {
        if self.bf16 { WeightDtype::Bf16 } else { WeightDtype::F32 }
    }

    pub(crate) fn activations(&self) -> Activations {
        if self.gradient_checkpointing { Activations::Recompute } else { Activations::Keep }
    }

    pub(crate) fn training(&self, optimizer: OptimizerPlace) -> TrainingSettings {
        TrainingSettings {
            dtype: self.dtype(),
            tokens: self.per_device_train_batch_size.saturating_mul(self.max_length),
            activations: self.activations(),
            optimizer,
        }
    }

    /// GPUs that share a host.
    pub(crate) fn on_a_host(&self) -> usize {
        self.gpus.min(self.gpus_per_node)
    }

    /// What flags and file come to; flags go before the file.
    ///
    /// # Errors
    /// A file that cannot be read or says what nobody knows, no model, or settings that do not go together.
    pub(crate) fn new(args: &PlanArgs) -> Result<Self> {
        let (file, model) = match args.config.as_deref() {
            Some(path) if path.extension().is_some_and(|end| end == "toml") => {
                let file = read(path)?;
                let beside = path.parent().unwrap_or(Path::new(""));
                let model = file.model.config.as_ref().map(|config| beside.join(config));
                (PlanFile { training: beside_plan(file.training, beside), ..file }, model)
            }
            other => (PlanFile::default(), other.map(Path::to_owned)),
        };
        let (hardware, training) = (file.hardware, file.training);
        let bad = |flag: String, problem: &str| Error::BadValue { flag, problem: problem.into() };
        let model = args.model_name_or_path.clone().or(model).ok_or_else(|| {
            bad("spag plan".into(), "no model is named: give a config.json, a plan file, or --model_name_or_path")
        })?;
        let gpu = args.gpu.or(hardware.gpu);
        let gpu_memory = args.gpu_memory.or(hardware.gpu_memory);
        // By its memory, where it is not named.
        let kind = gpu.unwrap_or(match gpu_memory {
            Some(memory) if memory <= 48.0 => Gpu::A100Of40,
            Some(memory) if memory <= 96.0 => Gpu::A100Of80,
            _ => Gpu::H200,
        });
        let gpus = args.gpus.or(hardware.gpus).unwrap_or(1);
        let settings = Self {
            model,
            gpu: kind,
            gpus,
            gpus_per_node: args.gpus_per_node.or(hardware.gpus_per_node).unwrap_or(8),
            gpu_memory: gpu_memory.unwrap_or(kind.figures().memory_gib),
            host_memory: args.host_memory.or(hardware.host_memory),
            network: args.network.or(hardware.network).unwrap_or(200.0),
            per_device_train_batch_size: args
                .per_device_train_batch_size
                .or(training.per_device_train_batch_size)
                .unwrap_or(8),
            gradient_accumulation_steps: args
                .gradient_accumulation_steps
                .or(training.gradient_accumulation_steps)
                .unwrap_or(1),
            max_length: args.max_length.or(training.max_length).unwrap_or(2048),
            bf16: args.bf16.or(training.bf16).unwrap_or(false),
            gradient_checkpointing: args.gradient_checkpointing.or(training.gradient_checkpointing).unwrap_or(false),
            choice: None,
        };
        settings.check()?;
        let stage = args.zero_stage.or(training.zero_stage);
        let deepspeed = args.deepspeed.clone().or(training.deepspeed);
        let places =
            (args.offload_optimizer.or(training.offload_optimizer), args.offload_param.or(training.offload_param));
        let choice = match (stage, deepspeed) {
            (Some(_), Some(file)) => {
                return Err(bad(
                    format!("--deepspeed {}", file.display()),
                    "it names a stage, and so does --zero_stage; leave one of them out",
                ));
            }
            (None, Some(file)) => Some(settings.of_deepspeed(&file)?),
            (Some(stage), None) => Some(choice(stage, places)?),
            (None, None) if places != (None, None) => {
                return Err(bad(
                    "--offload_optimizer, --offload_param".into(),
                    "say --zero_stage too, or leave them out to see all that there is",
                ));
            }
            (None, None) => None,
        };
        Ok(Self { choice, ..settings })
    }

    fn check(&self) -> Result<()> {
        let numbers = [
            ("gpus", self.gpus),
            ("gpus_per_node", self.gpus_per_node),
            ("per_device_train_batch_size", self.per_device_train_batch_size),
            ("gradient_accumulation_steps", self.gradient_accumulation_steps),
            ("max_length", self.max_length),
        ];
        for (name, value) in numbers {
            if !(1..=1 << 24).contains(&value) {
                return Err(bad_setting(name, value, "expected a whole number from 1 to 16777216"));
            }
        }
        let positive = |value: f64| value.is_finite() && value > 0.0;
        for (name, value) in
            [("gpu_memory", Some(self.gpu_memory)), ("host_memory", self.host_memory), ("network", Some(self.network))]
        {
            if let Some(value) = value.filter(|value| !positive(*value)) {
                return Err(bad_setting(name, value, "expected a number above 0"));
            }
        }
        match self.gpus > self.gpus_per_node && !self.gpus.is_multiple_of(self.gpus_per_node) {
            true => Err(bad_setting("gpus", self.gpus, "hosts have the same number of GPUs each; see --gpus_per_node")),
            false => Ok(()),
        }
    }

    /// The stage and offloads of a DeepSpeed file that agrees with the other settings.
    fn of_deepspeed(&self, path: &Path) -> Result<Choice> {
        let flags = Flags {
            per_device_train_batch_size: self.per_device_train_batch_size,
            gradient_accumulation_steps: self.gradient_accumulation_steps,
            world_size: self.gpus,
            bf16: self.bf16,
            hidden_size: super::model::read(&self.model)?.config.hidden_size,
            total_steps: 1000,
            ..Flags::default()
        };
        let settings = DeepSpeed::load(path, &flags).map_err(spag_train::Error::from)?;
        let zero = settings.zero_optimization;
        let place = |device| if device == Device::Cpu { Place::Cpu } else { Place::None };
        choice(
            u8::from(zero.stage),
            (Some(place(zero.offload_optimizer.device)), Some(place(zero.offload_param.device))),
        )
    }
}

fn choice(stage: u8, (optimizer, parameters): (Option<Place>, Option<Place>)) -> Result<Choice> {
    let sharding = Sharding::ALL
        .into_iter()
        .find(|sharding| sharding.stage() == stage)
        .ok_or_else(|| bad_setting("zero_stage", stage, "expected 0, 1, 2 or 3"))?;
    let parameters = match parameters {
        Some(Place::Cpu) if sharding != Sharding::Parameters => {
            return Err(bad_setting(
                "offload_param",
                "cpu",
                "parameters are split, and can be offloaded, in stage 3 alone",
            ));
        }
        Some(Place::Cpu) => ParameterPlace::Host,
        _ => ParameterPlace::Device,
    };
    let optimizer = if optimizer == Some(Place::Cpu) { OptimizerPlace::Host } else { OptimizerPlace::Device };
    Ok(Choice { sharding, optimizer, parameters })
}

fn bad_setting(name: &str, value: impl std::fmt::Display, problem: &str) -> Error {
    Error::BadValue { flag: format!("--{name} {value}"), problem: problem.into() }
}

fn read(path: &Path) -> Result<PlanFile> {
    let text = fs::read_to_string(path).map_err(spag_io::Error::io(path))?;
    let problem = |error: toml::de::Error| error.to_string().trim_end().to_owned();
    toml::from_str(&text).map_err(|error| Error::BadValue { flag: path.display().to_string(), problem: problem(error) })
}

fn beside_plan(training: TrainingSection, folder: &Path) -> TrainingSection {
    TrainingSection { deepspeed: training.deepspeed.as_ref().map(|file| folder.join(file)), ..training }
}
