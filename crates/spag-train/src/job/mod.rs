//! A training run from files to files: what `spag-train` does, and every training stage of the loop.

mod agreement;
mod folder;
mod observer;
mod zero;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use spag_dist::{JoinOptions, LaunchEnv, ProcessGroup, join_on, broadcast_text};
use spag_model::{
    DeviceChoice, Llama, LlamaConfig, LoadOptions, Network, OptimizerPlace, Tokenizer, WriteOptions, load_model_with,
    save_checkpoint,
};
use spag_rewards::{Sample, read_samples};

use crate::checkpoint::{self, Origin, SavedRun, latest_checkpoint};
use crate::config::{OffloadOptimizer, OffloadParam, TrainConfig, ZeroStage};
use crate::dataset::Dataset;
use crate::deepspeed::{DeepSpeed, Flags};
use crate::error::{Error, Result};
use crate::memory::Ranks;
use crate::order::Plan;
use crate::reference::{ReferenceKey, cached};
use crate::schedule::Schedule;
use crate::step::TrainData;
use crate::summary::TrainSummary;
use crate::trainer::Trainer;
use crate::zero::State;
use spag_io::Progress;

use agreement::same_on_all;
use folder::RunFolder;
use observer::RankObserver;
use zero::zero;

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
    /// ZeRO settings in DeepSpeed's JSON: checked against the settings here and written resolved.
    pub deepspeed: Option<PathBuf>,
    /// What is split over the ranks; what the DeepSpeed file says, or nothing, where it is absent.
    pub zero_stage: Option<ZeroStage>,
    /// Where the parameters of ZeRO stage 3 lie between their uses.
    pub offload_param: OffloadParam,
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
            zero_stage: None,
            offload_param: OffloadParam::None,
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

/// Reads, trains and writes, as one of the processes that the launcher's environment speaks of. The weights are written
/// last, so a folder with `model.safetensors` is a finished one.
///
/// Killed at any moment, the same job with [`Start::Latest`] ends with the same weights, bit by bit, on the same number
/// of threads and ranks.
///
/// # Errors
/// Files that cannot be read or written, a checkpoint that is damaged or of another run, a broken launcher environment,
/// ranks that are lost or were told something else, and everything that [`Trainer::run`] reports.
pub fn run(job: &TrainJob, progress: &mut dyn Progress) -> Result<TrainSummary> {
    let env = LaunchEnv::detect()?;
    // A device that cannot be used is found out before the others are met.
    let device = job.device.open(env.local_rank)?;
    run_on(job, &env, join_on(&env, &JoinOptions::detect()?, device.device())?, progress)
}

/// As [`run`], on ranks that have met. Rank 0 reads and writes the output folder; all of them read the model, the data
/// and checkpoints, so that these have to be there for each.
///
/// # Errors
/// As [`run`]. The other ranks are told why, and end too.
pub fn run_on(
    job: &TrainJob,
    env: &LaunchEnv,
    group: Arc<dyn ProcessGroup>,
    progress: &mut dyn Progress,
) -> Result<TrainSummary> {
    let outcome = train(job, env, &group, progress);
    if let Err(error) = &outcome {
        group.abort(&error.to_string());
    }
    outcome
}

fn train(
    job: &TrainJob,
    env: &LaunchEnv,
    group: &Arc<dyn ProcessGroup>,
    progress: &mut dyn Progress,
) -> Result<TrainSummary> {
    let started = Instant::now();
    job.config.check()?;
    // Before anything that takes long: a device that cannot be used is found out at once.
    let device = job.device.open(env.local_rank)?;
    let (samples, eval_samples) = (read_all(&job.train_data_path)?, read_all(&job.eval_data_path)?);
    // Before the long part, so that an unwritable folder costs nothing.
    let mut folder = match group.rank() {
        0 => Some(RunFolder::open(job)?),
        _ => None,
    };
    let saved = match start_from(job, &**group)? {
        Some(dir) if group.rank() == 0 => Some(SavedRun::open(dir)?),
        Some(dir) => Some(SavedRun::open_unchecked(dir)?),
        None => None,
    };
    // The tokenizer first: what the data are decides whether the run can go on.
    let model_dir = saved.as_ref().map_or(job.model_name_or_path.as_path(), SavedRun::dir).to_owned();
    let tokenizer = spag_model::load_tokenizer(&model_dir)?;
    let dataset = Dataset::new(&samples, &tokenizer, job.config.max_length)?;
    let deepspeed = deepspeed(job, dataset.samples.len(), group.size())?;
    let architecture = LlamaConfig::from_file(model_dir.join("config.json"))?;
    let ranks = Ranks { all: group.size(), on_host: env.local_size };
    let zero = zero(job, deepspeed.as_ref(), &architecture, ranks, &device)?;
    let job = &TrainJob {
        zero_stage: Some(zero.stage),
        offload_param: zero.parameters,
        offload_optimizer: match zero.optimizer {
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
        ranks: group.size(),
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
    same_on_all(job, &**group, &device, &architecture, &dataset, eval.as_ref())?;

    // The reference model is loaded, asked and dropped before the model that is trained is there.
    let mut of_reference = |dataset: &Dataset| match job.config.method.needs_reference() {
        true => reference(job, &**group, dataset, &options, progress),
        false => Ok(Vec::new()),
    };
    let ref_log_probs = of_reference(&dataset)?;
    let eval_ref_log_probs = eval.as_ref().map(&mut of_reference).transpose()?.unwrap_or_default();

    let network = Network::new(&architecture)?;
    let state = State::load(&model_dir, network.layout(), &options, &job.config, zero, group.clone())?;
    let data = TrainData { dataset: &dataset, ref_log_probs: &ref_log_probs };
    let mut trainer = Trainer::with_state(&network, state, data, &job.config)?.with_scheduler(scheduler.clone());
    if let Some(saved) = &saved {
        saved.restore(&mut trainer)?;
    }
    let resumed_at = trainer.position().step;
    let writer =
        folder.as_mut().map(|folder| folder.writer(job, deepspeed.as_ref(), origin, resumed_at)).transpose()?;
    let mut observer = writer.map_or(RankObserver::Following, RankObserver::Writing);
    let eval = eval.as_ref().map(|dataset| TrainData { dataset, ref_log_probs: &eval_ref_log_probs });
    trainer.run(eval, &mut observer, progress)?;
    if let RankObserver::Writing(writer) = &mut observer {
        writer.finish()?;
    }
    finish(job, &trainer, &tokenizer)?;
    // No rank ends before all is written: whoever started them would take it for the end.
    group.barrier()?;
    Ok(TrainSummary { resumed_at, ..TrainSummary::new(trainer.position(), &dataset.dropped, started.elapsed()) })
}

/// The checkpoint that the run goes on from, as rank 0 finds it.
fn start_from(job: &TrainJob, group: &dyn ProcessGroup) -> Result<Option<PathBuf>> {
    let found = match &job.start {
        Start::Anew | Start::Overwrite => None,
        Start::Latest if group.rank() == 0 => latest_checkpoint(&job.output_dir)?,
        Start::Latest => None,
        Start::From(dir) => Some(dir.clone()),
    };
    let named = found.map(|dir| dir.to_string_lossy().into_owned()).unwrap_or_default();
    let named = broadcast_text(group, &named)?;
    Ok((!named.is_empty()).then(|| PathBuf::from(named)))
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<Sample>> {
    let mut samples: Vec<Sample> = Vec::new();
    for path in paths {
        samples.append(&mut read_samples(path)?);
    }
    Ok(samples)
}

/// The settings of the DeepSpeed file, checked against those of the run.
fn deepspeed(job: &TrainJob, samples: usize, ranks: usize) -> Result<Option<DeepSpeed>> {
    let Some(path) = &job.deepspeed else { return Ok(None) };
    let config = &job.config;
    let total_steps = Plan::of_ranks(config, samples, ranks).steps;
    let flags = Flags {
        per_device_train_batch_size: config.per_device_train_batch_size,
        gradient_accumulation_steps: config.gradient_accumulation_steps,
        world_size: ranks,
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

/// ℓ_ref of a data set, from the run's folder or from the reference model.
fn reference(
    job: &TrainJob,
    group: &dyn ProcessGroup,
    dataset: &Dataset,
    // A reference in bf16 beside a model in bf16: before the first step both say the same.
    options: &LoadOptions,
    progress: &mut dyn Progress,
) -> Result<Vec<f64>> {
    let key = ReferenceKey::new(dataset, job.config.max_length, job.reference(), options.dtype)?;
    let load = || -> Result<Llama> { Ok(load_model_with(job.reference(), options)?) };
    cached(group, &RunFolder::reference_dir(job), &key, dataset, load, progress)
}

/// Writes the finished model, on rank 0.
fn finish(job: &TrainJob, trainer: &Trainer<'_>, tokenizer: &Tokenizer) -> Result<()> {
    if trainer.group().rank() > 0 {
        return checkpoint::read_through(trainer.weights());
    }
    let dir = job.model_dir.as_ref().unwrap_or(&job.output_dir);
    let options = WriteOptions::new(job.config.dtype());
    save_checkpoint(trainer.network().config(), trainer.weights(), Some(tokenizer), dir, options)?;
    Ok(())
}
