//! A stage of a run: what it reads, what it makes, and how.

use std::path::PathBuf;

use spag_io::Progress;
use spag_run::{Model, StageDone};

use super::context::RunContext;
use super::stage_folder::StageFolder;
use crate::error::{Error, Result};

/// A stage of a run. Its files are in the folder of its name.
pub(super) struct StageWork {
    /// The name, which is also that of its folder.
    pub(super) name: String,
    /// What it does in order, in the words of the report's table of seconds.
    pub(super) parts: Vec<&'static str>,
    /// Files and folders that it reads. They are there before it runs: given by the user, or made by an earlier stage.
    pub(super) inputs: Vec<PathBuf>,
    /// Files and folders that it makes for later stages and for people.
    pub(super) outputs: Vec<PathBuf>,
    /// When it runs, and what later stages may expect of it.
    pub(super) kind: StageKind,
    /// Makes the outputs. Called on all ranks; resumes what an earlier call has left.
    pub(super) run: RunStage,
}

/// The work of a stage.
pub(super) type RunStage = Box<dyn Fn(RunContext<'_>, &StageFolder, &mut dyn Progress) -> Result<StageDone>>;

/// When a stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StageKind {
    /// It makes this model. Runs once; not after the run was stopped.
    Train(Model),
    /// It measures the models trained so far, after a stop too. Runs once for all models.
    Evaluate,
    /// As `Evaluate`, but its own records tell what is missing, so that it is called by every run.
    EvaluateFromRecords,
}

impl StageWork {
    /// A stage that makes a model and reads nothing so far.
    pub(super) fn making(model: Model, run: RunStage) -> Self {
        Self::measuring(&model.stage(), StageKind::Train(model), run)
    }

    /// A stage that measures models and reads nothing so far.
    pub(super) fn measuring(name: &str, kind: StageKind, run: RunStage) -> Self {
        Self { name: name.to_owned(), parts: Vec::new(), inputs: Vec::new(), outputs: Vec::new(), kind, run }
    }

    /// Checks that the inputs are there.
    ///
    /// # Errors
    /// [`Error::MissingStageInput`].
    pub(super) fn check_inputs(&self) -> Result<()> {
        match self.inputs.iter().find(|path| !path.exists()) {
            Some(path) => Err(Error::MissingStageInput { stage: self.name.clone(), path: path.clone() }),
            None => Ok(()),
        }
    }
}
