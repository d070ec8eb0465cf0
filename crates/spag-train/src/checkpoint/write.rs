//! A checkpoint out: under another name first, and whole when it has its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use spag_model::{Tokenizer, WeightDtype, WeightSource, WriteOptions, WrittenFile, save_checkpoint, write_buffers};

use super::state::{DataPosition, FORMAT, SavedState};
use super::{STATE_FILE, TRAINER_STATE, folders};
use crate::config::TrainConfig;
use crate::deepspeed::Scheduler;
use crate::error::{Error, Result};
use crate::trainer::Trainer;

/// What a run was made from, to be kept with its checkpoints.
pub(crate) struct Origin<'a> {
    pub(crate) tokenizer: &'a Tokenizer,
    pub(crate) config: &'a TrainConfig,
    /// The schedule of a DeepSpeed file, where one takes the place of the settings'.
    pub(crate) scheduler: Option<&'a Scheduler>,
    pub(crate) data_sha256: &'a str,
    pub(crate) samples: usize,
    /// How many processes train.
    pub(crate) ranks: usize,
}

impl Origin<'_> {
    pub(super) fn scheduler_value(&self) -> Option<serde_json::Value> {
        // Plain numbers and names always have a value.
        self.scheduler.and_then(|scheduler| serde_json::to_value(scheduler).ok())
    }
}

/// Takes part in the [`write`] of another rank, which reads this one's parts.
pub(crate) fn write_elsewhere(trainer: &Trainer<'_>) -> Result<()> {
    read_through(trainer.weights())?;
    trainer.state().optimizer_state().iter().try_for_each(|(_, buffers)| read_through(&**buffers))
}

/// Asks for every layer as whoever writes them does.
pub(crate) fn read_through(source: &dyn WeightSource) -> Result<()> {
    let layers = source.layout().layers.len();
    for layer in 0..layers {
        source.unshard(layer, Some(layer + 1).filter(|next| *next < layers))?;
        source.reshard(layer);
    }
    Ok(())
}

/// Writes `checkpoint-<step>` in `output_dir`. Whatever goes wrong, the checkpoints that are there stay.
pub(crate) fn write(output_dir: &Path, trainer: &Trainer<'_>, origin: &Origin<'_>) -> Result<PathBuf> {
    let step = trainer.position().step;
    let temporary = output_dir.join(folders::unfinished_name(step));
    let written = fill(&temporary, trainer, origin).and_then(|()| publish(output_dir, step, &temporary));
    if written.is_err() {
        // Best effort, and it frees a full disk: the error that matters is the one being reported.
        let _ = fs::remove_dir_all(&temporary);
    }
    written
}

fn fill(dir: &Path, trainer: &Trainer<'_>, origin: &Origin<'_>) -> Result<()> {
    let _ = fs::remove_dir_all(dir);
    let inner = dir.join(TRAINER_STATE);
    fs::create_dir_all(&inner).map_err(Error::io(&inner))?;
    let options = WriteOptions::new(origin.config.dtype());
    let mut files =
        save_checkpoint(trainer.network().config(), trainer.weights(), Some(origin.tokenizer), dir, options)?;
    for (stem, buffers) in trainer.state().optimizer_state() {
        let written = write_buffers(&*buffers, &inner, stem, WriteOptions::new(WeightDtype::F32))?;
        let inside = |file: WrittenFile| WrittenFile { name: format!("{TRAINER_STATE}/{}", file.name), ..file };
        files.extend(written.into_iter().map(inside));
    }
    let step = trainer.position().step;
    let state = SavedState {
        format: FORMAT,
        program: concat!("spag-train ", env!("CARGO_PKG_VERSION")).into(),
        position: trainer.position().clone(),
        data_order: DataPosition {
            epoch: trainer.plan().epochs_after(step),
            micro_batches: trainer.plan().micro_batches_after(step),
        },
        optimizer_updates: trainer.optimizer().updates(),
        config: origin.config.clone(),
        scheduler: origin.scheduler_value(),
        data_sha256: origin.data_sha256.to_owned(),
        samples: origin.samples,
        ranks: origin.ranks,
        files,
    };
    let text = serde_json::to_vec_pretty(&state).map_err(|e| Error::io(inner.join(STATE_FILE))(e.into()))?;
    spag_io::write_atomically(inner.join(STATE_FILE), &text)?;
    sync_folder(&inner)?;
    sync_folder(dir)
}

/// Gives a whole checkpoint its name, in place of one of the same step.
fn publish(output_dir: &Path, step: usize, temporary: &Path) -> Result<PathBuf> {
    let path = output_dir.join(folders::name(step));
    if path.exists() {
        folders::remove(output_dir, step, &path)?;
    }
    fs::rename(temporary, &path).map_err(Error::io(&path))?;
    sync_folder(output_dir)?;
    Ok(path)
}

/// Makes the names in a folder last through a power cut.
fn sync_folder(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(Error::io(dir))
}
