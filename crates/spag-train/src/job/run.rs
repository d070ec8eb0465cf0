//! The steps of a training run, from reading its files to writing the finished model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use spag_chat::PromptEncoder;
use spag_dist::{JoinOptions, LaunchEnv, ProcessGroup, agree, join_on};
use spag_io::Progress;
use spag_model::checkpoint::{LoadOptions, load_config, load_model_with, load_notes};
use spag_model::model::Activations;
use spag_model::{Model, ModelConfig};
use spag_ops::OpenDevice;

use super::notes::notes;
use super::output::{OutputDir, RankObserver};
use super::provenance::sources;
use super::{Start, TrainJob};
use crate::batch_sampler::BatchSampler;
use crate::checkpoint::{Origin, SavedRun, latest_checkpoint};
use crate::config::{JobSettings, KeptBlocks};
use crate::dataset::{Dataset, SampleFiles};
use crate::deepspeed::DeepSpeed;
use crate::error::{Error, Result};
use crate::finished::FinishedModel;
use crate::loss;
use crate::memory::Beside;
use crate::offline::OfflineRun;
use crate::opening::{Beginning, Ranks};
use crate::reference::{ReferenceKey, cached_reference_log_probs};
use crate::summary::TrainSummary;

/// Reads, trains and writes, as one of the ranks of the launcher's environment. The weights are written last, so a folder
/// with `model.safetensors` is complete.
///
/// If the run is killed, the same job with [`Start::Latest`] gives the same final weights, bit by bit, with the same
/// number of threads and ranks.
///
/// # Errors
/// Files that cannot be read or written, a checkpoint that is damaged or of another run, a broken launcher environment,
/// lost ranks, ranks with mismatched settings, and all errors of training.
pub fn run(job: &TrainJob, progress: &mut dyn Progress) -> Result<TrainSummary> {
    let env = LaunchEnv::detect()?;
    // Before the rendezvous, so that an unusable device fails at once.
    let device = job.device.open(env.local_rank)?;
    run_on(job, &env, join_on(&env, &JoinOptions::detect()?, device.device())?, progress)
}

/// As [`run`], with a process group. Rank 0 reads and writes the output folder; all ranks read the model, the data and
/// the checkpoints.
///
/// # Errors
/// As [`run`]. An error aborts the other ranks too, with its message.
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
    let job = &TrainJob { config: job.resolved_config()?, ..job.clone() };
    job.config.check()?;
    // The checks that may fail run before the slow parts.
    let device = job.device.open(env.local_rank)?;
    if let Some(note) = device.take_note() {
        progress.message(&format!("note: {note}"));
    }
    if let (Some(format), false) = (job.config.quantize, device.device().is_cpu()) {
        let reason = format!("weights are quantised to {format} on a CPU only; use --device cpu");
        return Err(Error::Setting { name: "quantize", reason });
    }
    let (files, eval_files) = (SampleFiles::open(&job.train_data_path)?, SampleFiles::open(&job.eval_data_path)?);
    let output = if group.rank() == 0 { Some(OutputDir::open(job)?) } else { None };
    let checkpoint = match group.rank() {
        0 => start_from(job)?,
        _ => None,
    };
    let model = (job.model_name_or_path.as_path(), job.adapter.as_deref());
    let beginning = Beginning::find(&**group, &job.config, model, checkpoint)?;
    let Beginning { weights: model_dir, saved, .. } = &beginning;
    check_dropout(job, model_dir)?;
    let tokenizer = beginning.tokenizer(job.add_bos_token)?;
    let encoder = PromptEncoder::new(tokenizer.clone()).with_template(&job.template);
    let dataset = Dataset::read(files, &encoder, job.config.max_length)?;
    let sharding = JobSettings {
        deepspeed: job.deepspeed.clone(),
        zero_stage: job.zero_stage,
        shard_within: Some(job.shard_within),
        offload_optimizer: job.offload_optimizer,
        offload_param: Some(job.offload_param),
        ..JobSettings::default()
    };
    let ranks = Ranks { device: &device, env, group: group.clone(), beside: Beside::default(), shared: None };
    let steps = BatchSampler::new(&job.config, dataset.samples().len(), group.size()).steps;
    let plan = beginning.plan(&job.config, steps, &sharding, ranks)?;
    let deepspeed = plan.deepspeed.as_ref();
    let ignored = deepspeed.and_then(DeepSpeed::without_effect);
    let ignored =
        job.deepspeed.iter().zip(ignored).map(|(file, keys)| format!("{}: no effect here: {keys}", file.display()));
    let notes = load_notes(model_dir)?.into_iter().chain(notes(&job.config, &dataset)).chain(ignored);
    notes.for_each(|note| progress.message(&format!("note: {note}")));
    if let (KeptBlocks::Auto, Activations::KeepLast(kept)) = (job.config.keep_activations, plan.fitted.activations) {
        let blocks = plan.architecture.architecture.num_hidden_layers;
        progress.message(&format!("note: the activations of {kept} of {blocks} blocks are kept"));
    }
    if let (Some(file), Some(name)) = (&job.deepspeed, deepspeed.and_then(DeepSpeed::scheduler_name)) {
        let (file, kind) = (file.display(), job.config.lr_scheduler_type);
        progress.message(&format!("note: the scheduler of {file}, {name}, replaces --lr_scheduler_type {kind}"));
    }
    let job = &TrainJob {
        zero_stage: Some(plan.fitted.sharding.stage),
        offload_param: plan.fitted.sharding.parameters,
        offload_optimizer: Some(plan.fitted.sharding.optimizer),
        ..job.clone()
    };
    // The other ranks write no model.
    let (made_from, warning) = output.as_ref().map(|_| sources(job)).transpose()?.unwrap_or_default();
    if let Some(warning) = warning {
        progress.message(&warning);
    }
    let data_sha256 = dataset.content_digest();
    let mut origin = Origin {
        tokenizer: &tokenizer,
        config: &job.config,
        scheduler: deepspeed.and_then(|file| file.scheduler.as_ref()),
        data_sha256: &data_sha256,
        samples: dataset.samples().len(),
        ranks: group.size(),
        reference_sha256: BTreeMap::new(),
        made_from: &made_from,
    };
    if let Some(saved) = saved {
        let differences = saved.state().differences(&origin);
        if !differences.is_empty() {
            return Err(Error::OtherRun { path: saved.dir().to_owned(), differences });
        }
    }
    let eval = (!eval_files.is_empty()).then(|| Dataset::read(eval_files, &encoder, job.config.max_length));
    let eval = eval.transpose()?;
    check_agreement(job, &**group, &device, &plan.architecture, &dataset, eval.as_ref())?;

    // The reference model is dropped before the trained model is loaded.
    let needs_reference = loss::build(&job.config).needs_reference();
    let mut with_reference = |dataset: Dataset| match needs_reference {
        true => with_reference(job, &**group, dataset, &plan.options, saved.as_ref(), &mut origin, progress),
        false => Ok(dataset),
    };
    let dataset = with_reference(dataset)?;
    let eval = eval.map(with_reference).transpose()?;

    let run = OfflineRun::new(&dataset, &job.config, group.size())?;
    let mut learner = plan.open_learner(|saved, learner| saved.restore(learner, &run.sampler))?;
    let resumed_at = learner.position().step;
    let writer = output.as_ref().map(|output| output.writer(job, deepspeed, origin, resumed_at)).transpose()?;
    let mut observer = RankObserver::new(job, writer);
    run.run(&mut learner, eval.as_ref(), &mut observer, progress)?;
    observer.finish(&learner)?;
    drop(observer);
    output.as_ref().map_or(Ok(()), OutputDir::check)?;
    let finished = FinishedModel {
        learner: &learner,
        tokenizer: &tokenizer,
        made_from: &made_from,
        options: job.config.write_options(),
    };
    finished.write_adapter(&job.output_dir)?;
    match (&job.model_dir, learner.adapter()) {
        (Some(dir), _) => finished.write_model(dir)?,
        (None, None) => finished.write_model(&job.output_dir)?,
        // The adapter is the model.
        (None, Some(_)) => {}
    }
    // The folder may have been removed while the model was written into it.
    output.as_ref().map_or(Ok(()), OutputDir::check)?;
    // A launcher may take the exit of a rank for the end of the run, so no rank exits before all files are written.
    group.barrier()?;
    Ok(TrainSummary { resumed_at, ..TrainSummary::new(learner.position(), dataset.dropped(), started.elapsed()) })
}

/// The checkpoint to resume from.
fn start_from(job: &TrainJob) -> Result<Option<PathBuf>> {
    match &job.start {
        Start::New | Start::Overwrite => Ok(None),
        Start::Latest => latest_checkpoint(&job.output_dir),
        Start::From(dir) => Ok(Some(dir.clone())),
    }
}

/// Checks that the ranks agree on everything that a step's result, or the order of collectives, depends on.
///
/// # Errors
/// [`spag_dist::Error::Disagree`] on every rank, with the first rank and the first fact that differ.
fn check_agreement(
    job: &TrainJob,
    group: &dyn ProcessGroup,
    device: &OpenDevice,
    architecture: &ModelConfig,
    dataset: &Dataset,
    eval: Option<&Dataset>,
) -> Result<()> {
    if group.size() == 1 {
        return Ok(());
    }
    let value = |value: serde_json::Result<Value>| value.unwrap_or_default();
    let mut facts: Vec<(String, String)> = Vec::new();
    // Settings first: what follows from them differs too, but is less helpful.
    if let Value::Object(settings) = value(serde_json::to_value(&job.config)) {
        facts.extend(settings.iter().map(|(flag, value)| (format!("--{flag}"), value.to_string())));
    }
    let kind = if device.device().is_cpu() { "the CPU" } else { "a GPU" };
    facts.extend([
        ("--zero_stage".into(), job.zero_stage.unwrap_or_default().number().to_string()),
        ("--shard_within".into(), job.shard_within.to_string()),
        ("the device".into(), kind.into()),
        ("the model's config.json".into(), value(serde_json::to_value(architecture)).to_string()),
        ("the digest of the training data or the tokenizer".into(), dataset.content_digest()),
        ("the digest of the evaluation data".into(), eval.map(Dataset::content_digest).unwrap_or_default()),
    ]);
    let facts: Vec<(&str, String)> = facts.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    Ok(agree(group, &facts)?)
}

/// Refuses models with dropout, which acts in training only. A reference model has it too while the model trains.
fn check_dropout(job: &TrainJob, model: &Path) -> Result<()> {
    let reference = loss::build(&job.config).needs_reference().then(|| job.reference_dir());
    for dir in std::iter::once(model).chain(reference) {
        // A model that cannot be read is reported where it is loaded.
        if let Some((key, value)) = load_config(dir).ok().and_then(|config| config.dropout()) {
            return Err(Error::Dropout { path: dir.join("config.json"), key, value });
        }
    }
    Ok(())
}

/// A data set with ℓ_ref, from the output folder or from the reference model.
fn with_reference(
    job: &TrainJob,
    group: &dyn ProcessGroup,
    dataset: Dataset,
    // Of the trained model: in the same number format, model and reference agree before the first step.
    options: &LoadOptions,
    saved: Option<&SavedRun>,
    origin: &mut Origin<'_>,
    progress: &mut dyn Progress,
) -> Result<Dataset> {
    let key = ReferenceKey::new(&dataset, job.config.max_length, job.reference_dir(), options.dtype)?;
    let load = || -> Result<Model> { Ok(load_model_with(job.reference_dir(), options)?) };
    let dir = job.output_dir.join("ref_log_probs");
    let (log_probs, kept) = cached_reference_log_probs(group, &dir, &key, &dataset, load, progress)?;
    let dataset = dataset.with_reference(log_probs)?;
    let (path, digest) = (key.file(&dir), dataset.reference_digest());
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Another machine may compute them anew with other rounding.
    if let Some(saved) = saved.filter(|_| kept > 0)
        && saved.state().reference_sha256.get(&name).is_some_and(|before| *before != digest)
    {
        return Err(Error::ChangedReference { path, checkpoint: saved.dir().to_owned() });
    }
    origin.reference_sha256.insert(name, digest);
    Ok(dataset)
}
