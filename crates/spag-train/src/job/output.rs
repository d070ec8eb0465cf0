//! The output folder of a run, and what is written there during training.

use std::path::PathBuf;

use serde_json::{Map, Value};
use spag_io::{CommandFiles, Contents, FileLock, read_json, write_json_atomically};

use super::{Start, TrainJob};
use crate::checkpoint::{self, CHANGEABLE, Origin, Writing, checkpoint_folders};
use crate::config::{IntervalStrategy, TrainConfig};
use crate::deepspeed::DeepSpeed;
use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::metrics::{EvalRecord, MetricsLog, Record};
use crate::offline::Observer;
use crate::tensorboard::EventWriter;

/// The settings of the run in its output folder.
const SETTINGS: &str = "train_config.json";

/// The file by which the folder is locked.
const LOCK: &str = ".lock";

/// Keys of [`TrainJob`] on which the result does not depend.
const NOT_OF_RESULT: [&str; 8] = [
    "output_dir",
    "deepspeed",
    "zero_stage",
    "shard_within",
    "offload_param",
    "offload_optimizer",
    "logging_dir",
    "device",
];

/// The output folder of a run, locked against other runs.
pub(super) struct OutputDir {
    path: PathBuf,
    lock: FileLock,
}

impl OutputDir {
    /// Creates or opens the folder. Refuses to start a new run beside the checkpoints of an earlier one.
    pub(super) fn open(job: &TrainJob) -> Result<Self> {
        let path = job.output_dir.clone();
        check_files(job)?;
        let lock = FileLock::try_acquire(path.join(LOCK)).map_err(|error| match error {
            spag_io::Error::InUse { .. } => Error::OutputInUse { path: path.clone() },
            error => error.into(),
        })?;
        checkpoint::remove_leftovers(&path)?;
        Ok(Self { path, lock })
    }

    /// Checks that the folder is still the one that was opened. What was written to one that was removed is lost.
    pub(super) fn check(&self) -> Result<()> {
        self.lock.check().map_err(|_| Error::OutputGone { path: self.path.clone() })
    }

    /// `result`; if it failed because the folder was removed, an error that says so.
    pub(super) fn unless_gone<T>(&self, result: Result<T>) -> Result<T> {
        result.or_else(|error| self.check().and(Err(error)))
    }

    /// Deletes the oldest checkpoints beyond the limit of the settings.
    fn prune(&self, config: &TrainConfig) -> Result<()> {
        match config.save_total_limit {
            Some(limit) if config.save_strategy != IntervalStrategy::No => checkpoint::prune(&self.path, limit),
            _ => Ok(()),
        }
    }

    /// Writes the resolved settings, and returns the writer of metrics and checkpoints from step `step` on.
    pub(super) fn writer<'a>(
        &'a self,
        job: &'a TrainJob,
        deepspeed: Option<&DeepSpeed>,
        origin: Origin<'a>,
        step: usize,
    ) -> Result<RunWriter<'a>> {
        if job.start == Start::Overwrite {
            // Only here, so that a run that fails before its first step deletes nothing.
            for (step, path) in checkpoint::named_checkpoints(&self.path)? {
                checkpoint::remove(&self.path, step, &path)?;
            }
        }
        if job.start == Start::Latest {
            // The run may have ended between saving a checkpoint and deleting the oldest one.
            self.prune(&job.config)?;
        }
        write_json_atomically(self.path.join(SETTINGS), job)?;
        if let Some(settings) = deepspeed {
            write_json_atomically(self.path.join("deepspeed_config.json"), settings)?;
        }
        let events = job.logging_dir.as_ref().map(|dir| EventWriter::create(dir, step)).transpose()?;
        Ok(RunWriter { metrics: MetricsLog::open(&self.path, step)?, events, output: self, origin })
    }
}

/// Checks that the output folder is no input and holds no other model or results, before anything is written.
fn check_files(job: &TrainJob) -> Result<()> {
    // Refuses a damaged checkpoint by name, which might be the latest.
    let last = match &job.start {
        Start::New | Start::Latest => checkpoint_folders(&job.output_dir)?.pop(),
        Start::Overwrite | Start::From(_) => None,
    };
    if let (Start::New, Some((step, _))) = (&job.start, &last) {
        let path = job.output_dir.clone();
        let in_use = FileLock::is_taken(path.join(LOCK))?;
        return Err(if in_use { Error::OutputInUse { path } } else { Error::OutputHolds { path, step: *step } });
    }
    let files = CommandFiles::default().read("--model_name_or_path", &job.model_name_or_path);
    let files = files.read_all("--ref_model_name_or_path", &job.ref_model_name_or_path);
    let files = files.read_all("--adapter", &job.adapter).read_all("--train_data_path", &job.train_data_path);
    let mut files = files.read_all("--eval_data_path", &job.eval_data_path).read_all("--deepspeed", &job.deepspeed);
    let (written, kept) =
        (&[Contents::Model, Contents::Training], [Contents::Training, Contents::Games, Contents::Model]);
    let kept = match &job.start {
        Start::Overwrite => &Contents::ALL[..],
        // The settings of a checkpoint are compared later.
        Start::Latest | Start::From(_) if last.is_some() || has_settings_of(job)? => &kept,
        Start::New | Start::Latest | Start::From(_) => &kept[..2],
    };
    Ok(files.write_folder("--output_dir", &job.output_dir, written, kept)?)
}

/// Whether the output folder has the settings of this job, as far as the result depends on them.
fn has_settings_of(job: &TrainJob) -> Result<bool> {
    let facts = |job: Value| {
        let Value::Object(mut facts) = job else { return Map::new() };
        facts.retain(|key, _| !NOT_OF_RESULT.contains(&key.as_str()) && !CHANGEABLE.contains(&key.as_str()));
        facts
    };
    let was = read_json::<Value>(job.output_dir.join(SETTINGS))?;
    let now = serde_json::to_value(job).unwrap_or_default();
    Ok(was.is_some_and(|was| facts(was) == facts(now)))
}

/// Writes metrics and checkpoints during training.
pub(super) struct RunWriter<'a> {
    output: &'a OutputDir,
    origin: Origin<'a>,
    metrics: MetricsLog,
    events: Option<EventWriter>,
}

impl RunWriter<'_> {
    fn scalars(&mut self, step: usize, group: &str, values: &[(&str, f64)]) -> Result<()> {
        let Some(events) = &mut self.events else { return Ok(()) };
        let tagged: Vec<(String, f64)> =
            values.iter().map(|(name, value)| (format!("{group}/{name}"), *value)).collect();
        let values: Vec<(&str, f64)> = tagged.iter().map(|(tag, value)| (tag.as_str(), *value)).collect();
        events.scalars(step, &values)
    }
}

/// Writes what a rank observes: rank 0 metrics, and all ranks their part of checkpoints.
pub(super) struct RankObserver<'a> {
    job: &'a TrainJob,
    /// Of rank 0.
    writer: Option<RunWriter<'a>>,
    /// The checkpoint that is being written.
    writing: Option<Writing>,
}

impl<'a> RankObserver<'a> {
    /// Rank 0 has a writer.
    pub(super) fn new(job: &'a TrainJob, writer: Option<RunWriter<'a>>) -> Self {
        Self { job, writer, writing: None }
    }

    /// Waits until checkpoints and metrics are on the disk.
    pub(super) fn finish(&mut self, learner: &Learner) -> Result<()> {
        self.finish_checkpoint(learner)?;
        self.writer.as_ref().map_or(Ok(()), |writer| writer.output.unless_gone(writer.metrics.sync()))
    }

    fn finish_checkpoint(&mut self, learner: &Learner) -> Result<()> {
        match self.writing.take() {
            Some(writing) => self.published(writing.finish(learner.group())),
            None => Ok(()),
        }
    }

    /// After a checkpoint has been written, or has failed to be.
    fn published(&self, result: Result<()>) -> Result<()> {
        let Some(writer) = &self.writer else { return result };
        writer.output.unless_gone(result.and_then(|()| writer.output.prune(&self.job.config)))?;
        // A folder that was removed in between has been made again, with this checkpoint alone.
        writer.output.check()
    }
}

impl Observer for RankObserver<'_> {
    fn record(&mut self, record: &Record) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.output.check()?;
        writer.metrics.append(record)?;
        writer.scalars(record.step, "train", &record.named())
    }

    fn evaluated(&mut self, record: &EvalRecord) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.metrics.append(record)?;
        writer.scalars(record.step, "eval", &[("loss", record.eval_loss), ("runtime", record.eval_runtime)])
    }

    fn stepped(&mut self, learner: &Learner) -> Result<()> {
        let Some(writing) = &mut self.writing else { return Ok(()) };
        match writing.poll(learner.group()) {
            Ok(false) => Ok(()),
            done => {
                self.writing = None;
                self.published(done.map(drop))
            }
        }
    }

    fn save(&mut self, learner: &Learner) -> Result<()> {
        self.finish_checkpoint(learner)?;
        if let Some(writer) = &self.writer {
            writer.output.check()?;
            // A checkpoint must not be newer than the metrics on the disk.
            writer.output.unless_gone(writer.metrics.sync())?;
        }
        let (dir, options) = (&self.job.output_dir, self.job.config.write_options());
        let origin = self.writer.as_ref().map(|writer| &writer.origin);
        let started = Writing::start(dir, learner, options, origin);
        self.writing = Some(match &self.writer {
            Some(writer) => writer.output.unless_gone(started)?,
            None => started?,
        });
        Ok(())
    }
}
