//! The output folder of a run: whose it is, and what is written there while training goes on.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use spag_io::write_json_atomically;

use super::{Start, TrainJob};
use crate::checkpoint::{self, Origin, checkpoint_folders};
use crate::config::IntervalStrategy;
use crate::deepspeed::DeepSpeed;
use crate::error::{Error, Result};
use crate::metrics::{EvalRecord, MetricsLog, Record};
use crate::tensorboard::EventWriter;
use crate::trainer::{Observer, Trainer};

/// An open output folder; no other run can open it until this is dropped or the process ends, however it ends.
pub(super) struct RunFolder {
    dir: PathBuf,
    // Held, not read: the operating system releases the lock with the file.
    _lock: File,
}

impl RunFolder {
    /// Makes or opens the folder; refuses to begin anew among the checkpoints of an earlier run.
    pub(super) fn open(job: &TrainJob) -> Result<Self> {
        let dir = job.output_dir.clone();
        fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
        let folder = Self { _lock: lock(&dir)?, dir };
        if let (Start::Anew, Some((step, _))) = (&job.start, checkpoint_folders(&folder.dir)?.last()) {
            return Err(Error::OutputHolds { path: folder.dir, step: *step });
        }
        checkpoint::remove_leftovers(&folder.dir)?;
        Ok(folder)
    }

    /// Where ℓ_ref is kept.
    pub(super) fn reference_dir(job: &TrainJob) -> PathBuf {
        job.output_dir.join("ref_log_probs")
    }

    /// What keeps the run's metrics and checkpoints, from the step on where it begins.
    pub(super) fn writer<'a>(
        &'a mut self,
        job: &'a TrainJob,
        deepspeed: Option<&DeepSpeed>,
        origin: Origin<'a>,
        step: usize,
    ) -> Result<Writer<'a>> {
        if job.start == Start::Overwrite {
            // Only now: a run that could not begin has deleted nothing.
            for (_, path) in checkpoint_folders(&self.dir)? {
                fs::remove_dir_all(&path).map_err(Error::io(&path))?;
            }
        }
        // The settings as they were resolved, beside what they led to.
        write_json_atomically(self.dir.join("train_config.json"), job)?;
        if let Some(settings) = deepspeed {
            write_json_atomically(self.dir.join("deepspeed_config.json"), settings)?;
        }
        let events = job.logging_dir.as_ref().map(|dir| EventWriter::create(dir, step)).transpose()?;
        Ok(Writer { metrics: MetricsLog::open(&self.dir, step)?, events, dir: &self.dir, origin })
    }
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(".lock");
    let file = File::options().write(true).create(true).truncate(false).open(&path).map_err(Error::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::OutputInUse { path: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(Error::io(path)(source)),
    }
}

/// Keeps metrics and checkpoints while training goes on.
pub(super) struct Writer<'a> {
    dir: &'a Path,
    origin: Origin<'a>,
    metrics: MetricsLog,
    events: Option<EventWriter>,
}

impl Writer<'_> {
    /// Waits until the metrics are on the disk.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.metrics.sync()
    }

    fn scalars(&mut self, step: usize, group: &str, values: &[(&str, f64)]) -> Result<()> {
        let Some(events) = &mut self.events else { return Ok(()) };
        let tagged: Vec<(String, f64)> =
            values.iter().map(|(name, value)| (format!("{group}/{name}"), *value)).collect();
        let values: Vec<(&str, f64)> = tagged.iter().map(|(tag, value)| (tag.as_str(), *value)).collect();
        events.scalars(step, &values)
    }
}

impl Observer for Writer<'_> {
    fn record(&mut self, record: &Record) -> Result<()> {
        self.metrics.append(record)?;
        self.scalars(record.step, "train", &record.named())
    }

    fn evaluated(&mut self, record: &EvalRecord) -> Result<()> {
        self.metrics.append(record)?;
        self.scalars(record.step, "eval", &[("loss", record.eval_loss), ("runtime", record.eval_runtime)])
    }

    fn save(&mut self, trainer: &Trainer<'_>) -> Result<()> {
        // What the lines say happened before the checkpoint, so they are on the disk before it.
        self.metrics.sync()?;
        checkpoint::write(self.dir, trainer, &self.origin)?;
        match self.origin.config.save_total_limit {
            Some(limit) if self.origin.config.save_strategy != IntervalStrategy::No => {
                checkpoint::prune(self.dir, limit)
            }
            _ => Ok(()),
        }
    }
}
