//! The crate's one error type.

use std::path::PathBuf;

/// Everything that can go wrong while training, named by cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that cannot be trained with.
    #[error("training setting `{name}`: {reason}")]
    Setting {
        /// The flag's name.
        name: &'static str,
        /// What is wrong and what to do.
        reason: String,
    },
    /// There is nothing to train on.
    #[error("no samples to train on: {0}")]
    NoSamples(String),
    /// Loss or gradients were not finite several steps in a row.
    #[error(
        "{what} was not finite in {count} steps in a row, the last being step {step} with samples {samples:?} (0-based rows of the training data, in order of the files); lower the learning rate or look at these rows"
    )]
    NotFinite {
        /// Loss or gradient norm.
        what: &'static str,
        /// How many steps.
        count: usize,
        /// The last of them.
        step: usize,
        /// The samples of the last of them.
        samples: Vec<usize>,
    },
    /// A file or folder could not be written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Metrics could not be written.
    #[error("metrics could not be written: {0}")]
    Metrics(std::io::Error),
    /// Training data that cannot be read.
    #[error(transparent)]
    Data(#[from] spag_rewards::Error),
    /// A model or tokenizer that cannot be read, run or written.
    #[error(transparent)]
    Model(#[from] spag_model::Error),
    /// An error of the tensor library.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
