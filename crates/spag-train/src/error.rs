//! The crate's one error type.

use std::path::{Path, PathBuf};

use spag_io::{Classify, ErrorClass};

/// Everything that can go wrong while training, named by cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid setting.
    #[error("training setting `{name}`: {reason}")]
    Setting {
        /// The flag's name.
        name: &'static str,
        /// What is wrong and what to do.
        reason: String,
    },
    /// The training data have no usable sample.
    #[error("no samples to train on: {0}")]
    NoSamples(String),
    /// Loss or gradients were not finite in several consecutive steps.
    #[error(
        "{what} was not finite in {count} steps in a row, the last being step {step} with {places}; lower the learning rate or look at these rows"
    )]
    NotFinite {
        /// Loss or gradient norm.
        what: &'static str,
        /// How many steps.
        count: usize,
        /// The last of them.
        step: usize,
        /// The samples of the last of them: 0-based rows of the training data, in order of the files.
        samples: Vec<usize>,
        /// The same by file and row.
        places: String,
    },
    /// The weights or the state of the optimizer are not finite after a step, so nothing of them is written.
    #[error(
        "after step {step} the weights or the optimizer's state are not finite, or too large to compute with; nothing is written, and earlier checkpoints are kept; lower the learning rate"
    )]
    NotFiniteState {
        /// The last step.
        step: usize,
    },
    /// The weights or the state of the optimizer are not finite before the first step.
    #[error("{path}: the weights are not finite, or too large to compute with; use an intact model")]
    NotFiniteModel {
        /// The folder of the model or the checkpoint.
        path: PathBuf,
    },
    /// A model asks for dropout in training.
    #[error(
        "{path}: `{key}` is {value}, but training has no dropout; set it to 0 to train without (playing ignores it)"
    )]
    Dropout {
        /// The configuration.
        path: PathBuf,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A sample cannot be trained on.
    #[error("row {} of the training data: {reason}", row + 1)]
    Sample {
        /// 0-based row, in order of the files.
        row: usize,
        /// What is wrong.
        reason: String,
    },
    /// The reference model's log-probability of a sample is not finite.
    #[error("{place}: the reference model gives this sample a log-probability of {value}; are its weights complete?")]
    Reference {
        /// 0-based row, in order of the files.
        row: usize,
        /// The row for the message.
        place: String,
        /// Its ℓ_ref.
        value: f64,
    },
    /// The loss reads ℓ_ref, and the samples have none.
    #[error("the loss needs the reference model's log-probabilities, which these samples do not have")]
    NoReference,
    /// A penalty in the reward reads log-probabilities at sampling, and the span has none.
    #[error("the penalty in the reward needs the log-probabilities at sampling, which this span does not have")]
    NoSampling,
    /// There is not one ℓ_ref for each sample.
    #[error("{log_probs} reference log-probabilities for {samples} samples")]
    ReferenceLength {
        /// Number of samples.
        samples: usize,
        /// Number of log-probabilities.
        log_probs: usize,
    },
    /// A folder is not a checkpoint that a run can resume from.
    #[error("{path}: not a checkpoint to resume from: {reason}")]
    Checkpoint {
        /// The folder.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A checkpoint is of a run with other settings or data.
    #[error(
        "{path}: this checkpoint is of another run: {}; start it again with the same settings, or anew in another --output_dir",
        differences.join("; ")
    )]
    OtherRun {
        /// The checkpoint.
        path: PathBuf,
        /// Every difference that would change the result.
        differences: Vec<String>,
    },
    /// The output folder holds checkpoints of an earlier run.
    #[error(
        "{path}: holds checkpoints up to step {step}; resume with --resume_from_checkpoint latest, choose another --output_dir, or pass --overwrite_output_dir True to delete them"
    )]
    OutputHolds {
        /// The output folder.
        path: PathBuf,
        /// The last checkpoint's step.
        step: usize,
    },
    /// Another process is writing to the output folder.
    #[error("{path}: another run is writing here")]
    OutputInUse {
        /// The output folder.
        path: PathBuf,
    },
    /// The output folder was removed while the run was writing to it.
    #[error("{path}: this output folder was removed, moved or replaced during the run; start the run again")]
    OutputGone {
        /// The output folder.
        path: PathBuf,
    },
    /// The kept ℓ_ref are not those that the run started with.
    #[error(
        "{path}: these reference log-probabilities were changed since {checkpoint} was written; delete the file, and they are computed again"
    )]
    ChangedReference {
        /// The file.
        path: PathBuf,
        /// The checkpoint that the run resumes from.
        checkpoint: PathBuf,
    },
    /// A file of the output folder was not written by this run.
    #[error("{path}: does not hold the {what} of this run; delete it")]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// An error of the process group.
    #[error(transparent)]
    Dist(#[from] spag_dist::Error),
    /// An invalid DeepSpeed file.
    #[error(transparent)]
    DeepSpeed(#[from] crate::deepspeed::DeepSpeedError),
    /// A file of the run or of the training data could not be read or written.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// An error of the model or the tokenizer.
    #[error(transparent)]
    Model(spag_model::Error),
    /// An error of the tensor library.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

impl From<spag_ops::Error> for Error {
    fn from(error: spag_ops::Error) -> Self {
        Self::Model(error.into())
    }
}

/// An error of this crate that passed through the model is itself again.
impl From<spag_model::Error> for Error {
    fn from(error: spag_model::Error) -> Self {
        match error {
            spag_model::Error::WeightSource(inner) => match inner.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::Model(spag_model::Error::WeightSource(other)),
            },
            error => Self::Model(error),
        }
    }
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps an I/O error with the path it happened at.
    pub(crate) fn io(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| spag_io::Error::io(path)(source).into()
    }
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Model(error) => error.class(),
            Self::File(error) => error.class(),
            Self::Dist(error) => error.class(),
            Self::NotFinite { .. }
            | Self::NotFiniteState { .. }
            | Self::OutputInUse { .. }
            | Self::OutputGone { .. }
            | Self::Candle(_) => ErrorClass::Failure,
            // All others name a setting, a file or a sample.
            _ => ErrorClass::BadInput,
        }
    }
}
