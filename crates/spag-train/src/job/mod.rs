//! A training run from files to files: what `spag-train` does, and every training stage of the loop.

mod folder;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use spag_dist::LaunchEnv;
use spag_model::{
    Checkpoint, DeviceChoice, Llama, LlamaConfig, LoadOptions, OptimizerPlace, Tokenizer, WriteOptions, load_model_with,
};
use spag_rewards::{Sample, read_samples};

use crate::checkpoint::{Origin, SavedRun, latest_checkpoint};
use crate::config::{OffloadOptimizer, TrainConfig};
use crate::dataset::Dataset;
use crate::deepspeed::{self, DeepSpeed, Flags};
use crate::error::{Error, Result};
use crate::memory::place_optimizer;
use crate::order::Plan;
use crate::progress::Progress;
use crate::reference::{ReferenceKey, cached};
use crate::schedule::Schedule;
use crate::step::TrainData;
use crate::summary::TrainSummary;
use crate::trainer::Trainer;

use folder::RunFolder;

/// Which files a run reads and writes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainJob {
    /// Folder of the model that is trained.
    pub model_name_or_path: PathBuf,
    /// Folder of the frozen reference; the model itself, as it is before the first step, where none is named.
    pub ref_model_name_or_path: Option<PathBuf>,
    /// Sample files, JSON lists or JSONL, read one after another.
    pub train_data_path: Vec<PathBuf>,
    /// Sample files whose loss is measured and never trained on.
    pub eval_data_path: Vec<PathBuf>,
    /// Folder of `metrics.jsonl`, TensorBoard events, ℓ_ref and checkpoints.
    pub output_dir: PathBuf,
    /// Folder of the finished model; `output_dir` where none is named.
    pub model_dir: Option<PathBuf>,
    /// ZeRO settings in DeepSpeed's JSON: checked against the settings here and written resolved; one process has no
    /// state to split.
    pub deepspeed: Option<PathBuf>,
    /// Where TensorBoard events go; nowhere where none is named.
    pub logging_dir: Option<PathBuf>,
    /// The device that trains.
    pub device: DeviceChoice,
    /// Where the optimizer's state lies. In the output folder: where it lay.
    pub offload_optimizer: OffloadOptimizer,
    /// Whether an earlier start of the run goes on.
    #[serde(skip)]
    pub start: Start,
    /// The settings.
    #[serde(flatten)]
    pub config: TrainConfig,
}

/// How a run begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// From the model; an output folder that holds checkpoints is left alone and the run refused.
    #[default]
    Anew,
    /// From the model; checkpoints of an earlier run in the output folder are deleted.
    Overwrite,
    /// From the last checkpoint in the output folder; from the model where there is none yet.
    Latest,
    /// From this checkpoint.
    From(PathBuf),
}

impl TrainJob {
    /// A run of `config` on one file of samples, begun anew, whose output all goes to one folder.
    pub fn new(
        model: impl Into<PathBuf>,
        samples: impl Into<PathBuf>,
        output_dir: impl Into<PathBuf>,
        config: TrainConfig,
    ) -> Self {
        Self {
            model_name_or_path: model.into(),
            ref_model_name_or_path: None,
            train_data_path: vec![samples.into()],
            eval_data_path: Vec::new(),
            output_dir: output_dir.into(),
            model_dir: None,
            deepspeed: None,
            logging_dir: None,
            device: DeviceChoice::default(),
            offload_optimizer: OffloadOptimizer::default(),
            start: Start::Anew,
            config,
        }
    }

    /// Folder of the frozen reference model.
    fn reference(&self) -> &Path {
        self.ref_model_name_or_path.as_deref().unwrap_or(&self.model_name_or_path)
    }
}

/// Reads, trains and writes. The weights are written last, so a folder with `model.safetensors` is a finished one.
///
/// Killed at any moment, the same job with [`Start::Latest`] ends with the same weights, bit by bit, on the same number
/// of threads.
///
/// # Errors
/// Files that cannot be read or written, a checkpoint that is damaged or of another run, and everything that
/// [`Trainer::run`] reports.
pub fn run(job: &TrainJob, progress: &mut dyn Progress) -> Result<TrainSummary> {
    let started = Instant::now();
    job.config.check()?;
    // Before anything that takes long: a device that cannot be used is found out at once.
    let device = job.device.open(LaunchEnv::detect()?.local_rank)?;
    let (samples, eval_samples) = (read_all(&job.train_data_path)?, read_all(&job.eval_data_path)?);
    // Before the long part, so that an unwritable folder costs nothing.
    let mut folder = RunFolder::open(job)?;
    let saved = match &job.start {
        Start::Anew | Start::Overwrite => None,
        Start::Latest => latest_checkpoint(&job.output_dir)?.map(SavedRun::open).transpose()?,
        Start::From(dir) => Some(SavedRun::open(dir)?),
    };
    // The tokenizer first: what the data are decides whether the run can go on.
    let model_dir = saved.as_ref().map_or(job.model_name_or_path.as_path(), SavedRun::dir);
    let tokenizer = spag_model::load_tokenizer(model_dir)?;
    let dataset = Dataset::new(&samples, &tokenizer, job.config.max_length)?;
    let deepspeed = deepspeed(job, dataset.samples.len())?;
    let architecture = LlamaConfig::from_file(model_dir.join("config.json"))?;
    let offload = offload(job, deepspeed.as_ref())?;
    let optimizer = place_optimizer(&architecture, &job.config, offload, &device)?;
    let job = &TrainJob {
        offload_optimizer: match optimizer {
            OptimizerPlace::Device => OffloadOptimizer::None,
            OptimizerPlace::Host => OffloadOptimizer::Cpu,
        },
        ..job.clone()
    };
    let options = LoadOptions { device: device.device().clone(), dtype: job.config.dtype() };
    let scheduler = deepspeed.as_ref().and_then(|settings| settings.scheduler.clone());
    let data_sha256 = dataset.content_digest();
    let origin = Origin {
        tokenizer: &tokenizer,
        config: &job.config,
        scheduler: scheduler.as_ref(),
        data_sha256: &data_sha256,
        samples: dataset.samples.len(),
    };
    if let Some(saved) = &saved {
        let differences = saved.state().differences(&origin);
        if !differences.is_empty() {
            return Err(Error::OtherRun { path: saved.dir().to_owned(), differences });
        }
    }
    let eval = match eval_samples.is_empty() {
        true => None,
        false => Some(Dataset::new(&eval_samples, &tokenizer, job.config.max_length)?),
    };
    drop((samples, eval_samples));

    // The reference model is loaded, asked and dropped before the model that is trained is there.
    let mut of_reference = |dataset: &Dataset| match job.config.method.needs_reference() {
        true => reference(job, &folder, dataset, &options, progress),
        false => Ok(Vec::new()),
    };
    let ref_log_probs = of_reference(&dataset)?;
    let eval_ref_log_probs = eval.as_ref().map(&mut of_reference).transpose()?.unwrap_or_default();

    let model = match &saved {
        Some(saved) => saved.load_model(&options)?,
        None => load_model_with(&job.model_name_or_path, &options)?,
    };
    let data = TrainData { dataset: &dataset, ref_log_probs: &ref_log_probs };
    let mut trainer = Trainer::placed(&model, data, &job.config, optimizer)?.with_scheduler(scheduler.clone());
    if let Some(saved) = &saved {
        saved.restore(&mut trainer)?;
    }
    let resumed_at = trainer.position().step;
    let mut writer = folder.writer(job, deepspeed.as_ref(), origin, resumed_at)?;
    let eval = eval.as_ref().map(|dataset| TrainData { dataset, ref_log_probs: &eval_ref_log_probs });
    trainer.run(eval, &mut writer, progress)?;
    writer.finish()?;
    let summary =
        TrainSummary { resumed_at, ..TrainSummary::new(trainer.position(), &dataset.dropped, started.elapsed()) };
    drop(trainer);
    finish(job, model, tokenizer)?;
    Ok(summary)
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<Sample>> {
    let mut samples: Vec<Sample> = Vec::new();
    for path in paths {
        samples.append(&mut read_samples(path)?);
    }
    Ok(samples)
}

/// The settings of the DeepSpeed file, checked against those of the run.
fn deepspeed(job: &TrainJob, samples: usize) -> Result<Option<DeepSpeed>> {
    let Some(path) = &job.deepspeed else { return Ok(None) };
    let config = &job.config;
    let total_steps = Plan::new(config, samples).steps;
    let flags = Flags {
        per_device_train_batch_size: config.per_device_train_batch_size,
        gradient_accumulation_steps: config.gradient_accumulation_steps,
        world_size: 1,
        max_grad_norm: config.max_grad_norm,
        bf16: config.bf16,
        fp16: false,
        learning_rate: config.learning_rate,
        adam_beta1: config.adam_beta1,
        adam_beta2: config.adam_beta2,
        adam_epsilon: config.adam_epsilon,
        weight_decay: config.weight_decay,
        warmup_steps: Schedule::new(config, total_steps).warmup_steps(),
        total_steps,
        hidden_size: LlamaConfig::from_file(job.model_name_or_path.join("config.json"))?.hidden_size,
    };
    Ok(Some(DeepSpeed::load(path, &flags)?))
}

/// Where the optimizer's state is asked to lie: what the flag says or, where that is silent, the DeepSpeed file.
fn offload(job: &TrainJob, deepspeed: Option<&DeepSpeed>) -> Result<OffloadOptimizer> {
    let in_file = deepspeed.map(|settings| settings.zero_optimization.offload_optimizer.device);
    match (job.offload_optimizer, in_file) {
        (OffloadOptimizer::Auto, Some(deepspeed::Device::Cpu)) => Ok(OffloadOptimizer::Cpu),
        (OffloadOptimizer::None, Some(deepspeed::Device::Cpu)) => Err(Error::Setting {
            name: "offload_optimizer",
            reason: "it is none, and `zero_optimization.offload_optimizer.device` in the --deepspeed file is \"cpu\"; \
                     leave one of them out"
                .into(),
        }),
        (asked, _) => Ok(asked),
    }
}

/// ℓ_ref of a data set, from the run's folder or from the reference model.
fn reference(
    job: &TrainJob,
    folder: &RunFolder,
    dataset: &Dataset,
    // A reference in bf16 beside a model in bf16: before the first step both say the same.
    options: &LoadOptions,
    progress: &mut dyn Progress,
) -> Result<Vec<f64>> {
    let key = ReferenceKey::new(dataset, job.config.max_length, job.reference(), options.dtype)?;
    let load = || -> Result<Llama> { Ok(load_model_with(job.reference(), options)?) };
    cached(&folder.reference_dir(), &key, dataset, load, progress)
}

/// Writes the finished model.
fn finish(job: &TrainJob, model: Llama, tokenizer: Tokenizer) -> Result<()> {
    let dir = job.model_dir.as_ref().unwrap_or(&job.output_dir);
    Checkpoint { model, tokenizer }.save(dir, WriteOptions::new(job.config.dtype()))?;
    Ok(())
}
