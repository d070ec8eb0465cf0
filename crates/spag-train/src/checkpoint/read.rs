//! Reading a checkpoint.

use std::path::{Path, PathBuf};

use spag_model::Checkpoint;

use super::state::{FORMAT, SavedState};
use super::{STATE_FILE, TRAINER_STATE};
use crate::error::{Error, Result};
use crate::trainer::Trainer;

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
        Ok(saved)
    }

    /// As [`SavedRun::open`] without reading all files, for a checkpoint that another rank has checked.
    ///
    /// # Errors
    /// Not a checkpoint of a run, or one of another version.
    pub(crate) fn open_unchecked(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        let path = dir.join(TRAINER_STATE).join(STATE_FILE);
        let wrong = |reason: String| Error::Checkpoint { path: dir.to_owned(), reason };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(wrong(format!(
                    "there is no {TRAINER_STATE}/{STATE_FILE}; a run resumes from a checkpoint-<step> folder that spag-train wrote (to train further from a finished model, pass it as --model_name_or_path)"
                )));
            }
            Err(e) => return Err(Error::io(path)(e)),
        };
        let state: SavedState =
            serde_json::from_str(&text).map_err(|e| wrong(format!("{TRAINER_STATE}/{STATE_FILE}: {e}")))?;
        if state.format != FORMAT {
            return Err(wrong(format!("it has format {}; this program reads format {FORMAT}", state.format)));
        }
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

    /// The model and the tokenizer.
    ///
    /// # Errors
    /// As [`Checkpoint::load`].
    pub fn load_checkpoint(&self) -> Result<Checkpoint> {
        Ok(Checkpoint::load(&self.dir)?)
    }

    /// Restores the optimizer and the position of a trainer whose model is that of the checkpoint.
    ///
    /// # Errors
    /// Buffers that do not fit the model.
    pub(crate) fn restore(&self, trainer: &mut Trainer<'_>) -> Result<()> {
        trainer.state().restore_optimizer(&self.dir.join(TRAINER_STATE))?;
        trainer.resume_at(self.state.position.clone(), self.state.optimizer_updates);
        Ok(())
    }
}
