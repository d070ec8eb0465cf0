//! Writing a checkpoint: under a temporary name, renamed when it is complete.

use std::fs;
use std::path::{Path, PathBuf};

use spag_io::{sync_folder, write_json_atomically};
use spag_model::checkpoint::{WriteOptions, WrittenFile, save_checkpoint, write_buffers};
use spag_model::params::WeightSource;

use super::origin::Origin;
use super::state::{DataPosition, FORMAT, SavedState};
use super::{STATE_FILE, TRAINER_STATE, folders};
use crate::batch_sampler::BatchSampler;
use crate::error::{Error, Result};
use crate::learner::Learner;
use crate::optimizer::StateBuffer;

/// This rank's part of a [`write`] on rank 0, which gathers its shards.
pub(crate) fn follow_write(learner: &Learner) -> Result<()> {
    gather_layers(learner.trained())?;
    learner.state().optimizer_state().iter().try_for_each(|(_, buffers)| gather_layers(&**buffers))
}

/// Gathers every layer in the order in which rank 0 writes them. It does not read layers without tensors, which adapters have.
pub(crate) fn gather_layers(source: &dyn WeightSource) -> Result<()> {
    let layers = source.layout().layers.len();
    for layer in (0..layers).filter(|layer| !source.layout().layers[*layer].views.is_empty()) {
        source.unshard(layer, Some(layer + 1).filter(|next| *next < layers))?;
        source.reshard(layer);
    }
    Ok(())
}

/// Writes `checkpoint-<step>` in `output_dir`. If it fails, existing checkpoints are kept.
pub(crate) fn write(output_dir: &Path, learner: &Learner, origin: &Origin<'_>) -> Result<PathBuf> {
    let step = learner.position().step;
    let temporary = output_dir.join(folders::unfinished_name(step));
    let written = fill(&temporary, learner, origin).and_then(|()| publish(output_dir, step, &temporary));
    if written.is_err() {
        // Best effort, and it frees a full disk; the first error is returned.
        let _ = fs::remove_dir_all(&temporary);
    }
    written
}

fn fill(dir: &Path, learner: &Learner, origin: &Origin<'_>) -> Result<()> {
    let _ = fs::remove_dir_all(dir);
    let inner = dir.join(TRAINER_STATE);
    fs::create_dir_all(&inner).map_err(Error::io(&inner))?;
    let options = origin.config.write_options();
    let mut files = match learner.adapter() {
        Some(adapter) => adapter.save(learner.trained(), dir, options)?,
        None => save_checkpoint(learner.network().config(), learner.trained(), Some(origin.tokenizer), dir, options)?,
    };
    for (StateBuffer { name, dtype, .. }, buffers) in learner.state().optimizer_state() {
        let written = write_buffers(&*buffers, &inner, name, WriteOptions::new(dtype))?;
        let inside = |file: WrittenFile| WrittenFile { name: format!("{TRAINER_STATE}/{}", file.name), ..file };
        files.extend(written.into_iter().map(inside));
    }
    origin.made_from.write_of(dir)?;
    let (step, sampler) = (learner.position().step, BatchSampler::new(origin.config, origin.samples, origin.ranks));
    let state = SavedState {
        format: FORMAT,
        program: concat!("spag-train ", env!("CARGO_PKG_VERSION")).into(),
        position: learner.position().clone(),
        data_order: DataPosition {
            epoch: sampler.epochs_after(step),
            micro_batches: sampler.micro_batches_after(step),
        },
        optimizer_updates: learner.optimizer().updates(),
        config: origin.config.clone(),
        scheduler: origin.scheduler_value(),
        data_sha256: origin.data_sha256.to_owned(),
        samples: origin.samples,
        ranks: origin.ranks,
        reference_sha256: origin.reference_sha256.clone(),
        files,
    };
    write_json_atomically(inner.join(STATE_FILE), &state)?;
    sync_folder(&inner)?;
    Ok(sync_folder(dir)?)
}

/// Renames a complete checkpoint. Replaces one of the same step.
fn publish(output_dir: &Path, step: usize, temporary: &Path) -> Result<PathBuf> {
    let path = output_dir.join(folders::name(step));
    if path.symlink_metadata().is_ok() {
        folders::remove(output_dir, step, &path)?;
    }
    fs::rename(temporary, &path).map_err(Error::io(&path))?;
    sync_folder(output_dir)?;
    Ok(path)
}
