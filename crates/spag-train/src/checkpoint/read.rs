//! Reading a checkpoint.

use std::path::{Path, PathBuf};

use spag_io::quote;

use super::state::{FORMAT, SavedState};
use super::{STATE_FILE, TRAINER_STATE, folders};
use crate::batch_sampler::BatchSampler;
use crate::error::{Error, Result};
use crate::learner::Learner;

/// A checkpoint on disk whose files match their checksums.
#[derive(Clone, Debug)]
pub struct SavedRun {
    dir: PathBuf,
    state: SavedState,
}

impl SavedRun {
    /// Opens a checkpoint and checks the size and checksum of every file.
    ///
    /// # Errors
    /// Not a checkpoint of a run, one of another version, or a damaged file, which the error names.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        let saved = Self::open_unchecked(dir)?;
        for file in &saved.state.files {
            file.check_on_disk(&saved.dir)?;
        }
        saved.check_listed()?;
        Ok(saved)
    }

    /// Refuses files of tensors whose checksums are not recorded: they would be read unchecked.
    fn check_listed(&self) -> Result<()> {
        for prefix in [String::new(), format!("{TRAINER_STATE}/")] {
            let folder = self.dir.join(&prefix);
            for entry in std::fs::read_dir(&folder).map_err(Error::io(&folder))? {
                let name = entry.map_err(Error::io(&folder))?.file_name();
                let name = format!("{prefix}{}", name.to_string_lossy());
                if name.ends_with(".safetensors") && self.state.files.iter().all(|file| file.name != name) {
                    let reason = format!("{TRAINER_STATE}/{STATE_FILE} has no checksum of {}", quote(&name));
                    return Err(Error::Checkpoint { path: self.dir.clone(), reason });
                }
            }
        }
        Ok(())
    }

    /// As [`SavedRun::open`] without reading all files, for a checkpoint that another rank has checked.
    ///
    /// # Errors
    /// Not a checkpoint of a run, or one of another version.
    pub(crate) fn open_unchecked(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        let path = dir.join(TRAINER_STATE).join(STATE_FILE);
        let wrong = |reason: String| Error::Checkpoint { path: dir.to_owned(), reason };
        let Some(state) = spag_io::read_json::<SavedState>(&path)? else {
            return Err(wrong(format!(
                "there is no {TRAINER_STATE}/{STATE_FILE}; a run resumes from a checkpoint-<step> folder that spag-train wrote (to train further from a finished model, pass it as --model_name_or_path)"
            )));
        };
        if state.format != FORMAT {
            return Err(wrong(format!("it has format {}; this program reads format {FORMAT}", state.format)));
        }
        let named = dir.file_name().and_then(|name| folders::step_of(&name.to_string_lossy()));
        if let Some(step) = named.filter(|step| *step != state.position.step) {
            let reason = format!("it is of step {}, not {step}; was it renamed or altered?", state.position.step);
            return Err(wrong(reason));
        }
        state.check().map_err(|reason| wrong(format!("{TRAINER_STATE}/{STATE_FILE}: {reason}")))?;
        Ok(Self { dir: dir.to_owned(), state })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Progress and settings of the run.
    pub fn state(&self) -> &SavedState {
        &self.state
    }

    /// Restores the optimizer and the position of a learner whose model is that of the checkpoint, of a run without files of
    /// data.
    ///
    /// # Errors
    /// Buffers that do not fit the model.
    pub(crate) fn restore_optimizer(&self, learner: &mut Learner) -> Result<()> {
        learner.state().restore_optimizer(&self.dir.join(TRAINER_STATE))?;
        learner.resume_at(self.state.position.clone(), self.state.optimizer_updates);
        Ok(())
    }

    /// Restores the optimizer and the position of a learner whose model is that of the checkpoint.
    ///
    /// # Errors
    /// Buffers that do not fit the model, or a position that does not fit the data.
    pub(crate) fn restore(&self, learner: &mut Learner, sampler: &BatchSampler) -> Result<()> {
        let step = self.state.position.step;
        let read = self.state.data_order.micro_batches;
        if step > sampler.steps || read != sampler.micro_batches_after(step) {
            let reason = format!(
                "{TRAINER_STATE}/{STATE_FILE}: step {step} with {read} micro-batches read does not fit this run of {} steps",
                sampler.steps
            );
            return Err(Error::Checkpoint { path: self.dir.clone(), reason });
        }
        self.restore_optimizer(learner)
    }
}
