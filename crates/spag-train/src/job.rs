//! A training run from files to files: what `spag-train` does.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use spag_model::{Checkpoint, Llama, WriteOptions, load_model};
use spag_rewards::{Sample, read_samples};

use crate::config::{SaveStrategy, TrainConfig};
use crate::error::{Error, Result};
use crate::metrics::Record;
use crate::progress::Progress;
use crate::trainer::{Observer, TrainSummary, train_samples};

/// Which files a run reads and writes.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainJob {
    /// Folder of the model that is trained.
    pub model_name_or_path: PathBuf,
    /// Folder of the frozen reference; the model itself, as it is before the first step, where none is named.
    pub ref_model_name_or_path: Option<PathBuf>,
    /// Sample files, JSON lists or JSONL, read one after another.
    pub train_data_path: Vec<PathBuf>,
    /// Folder of the result: a Hugging Face checkpoint and `metrics.jsonl`.
    pub output_dir: PathBuf,
    /// The settings.
    pub config: TrainConfig,
}

/// Reads, trains and writes. The weights are written last, so a folder with `model.safetensors` is a finished one.
///
/// # Errors
/// Files that cannot be read or written, and everything that [`train_samples`] reports.
pub fn run(job: &TrainJob, progress: &mut dyn Progress) -> Result<TrainSummary> {
    job.config.check()?;
    let mut samples: Vec<Sample> = Vec::new();
    for path in &job.train_data_path {
        samples.append(&mut read_samples(path)?);
    }
    // Before the long part, so that an unwritable folder costs nothing.
    std::fs::create_dir_all(&job.output_dir).map_err(io(&job.output_dir))?;
    let checkpoint = Checkpoint::load(&job.model_name_or_path)?;
    let reference = match &job.ref_model_name_or_path {
        Some(path) if job.config.method.needs_reference() && !same_folder(path, &job.model_name_or_path) => {
            Some(load_model(path)?)
        }
        _ => None,
    };
    let mut files = Files::create(job, &checkpoint)?;
    let Checkpoint { model, tokenizer } = &checkpoint;
    let summary = train_samples(model, tokenizer, &samples, reference.as_ref(), &job.config, &mut files, progress)?;
    files.finish()?;
    checkpoint.save(&job.output_dir, WriteOptions::new(job.config.save_dtype))?;
    Ok(summary)
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

fn same_folder(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// `metrics.jsonl` and the checkpoints between epochs.
struct Files<'a> {
    job: &'a TrainJob,
    checkpoint: Checkpoint,
    metrics: BufWriter<File>,
}

impl<'a> Files<'a> {
    fn create(job: &'a TrainJob, checkpoint: &Checkpoint) -> Result<Self> {
        let path = job.output_dir.join("metrics.jsonl");
        let metrics = BufWriter::new(File::create(&path).map_err(io(&path))?);
        Ok(Self { job, checkpoint: checkpoint.clone(), metrics })
    }

    fn finish(&mut self) -> Result<()> {
        self.metrics.flush().and_then(|()| self.metrics.get_ref().sync_all()).map_err(Error::Metrics)
    }
}

impl Observer for Files<'_> {
    fn record(&mut self, record: &Record) -> Result<()> {
        let line = serde_json::to_string(record).map_err(|e| Error::Metrics(e.into()))?;
        // A line at a time reaches the file, so that a kill loses none that was written.
        writeln!(self.metrics, "{line}").and_then(|()| self.metrics.flush()).map_err(Error::Metrics)
    }

    fn epoch_end(&mut self, _model: &Llama, step: usize) -> Result<()> {
        if self.job.config.save_strategy == SaveStrategy::Epoch {
            let dir = self.job.output_dir.join(format!("checkpoint-{step}"));
            self.checkpoint.save(dir, WriteOptions::new(self.job.config.save_dtype))?;
        }
        Ok(())
    }
}
