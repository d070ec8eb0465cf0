//! The error types of this crate and of single requests.

mod request;

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass, format_gib};

pub use request::RequestError;

/// Errors of this crate, one variant per cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// A JSON file of a checkpoint is malformed.
    #[error("{path}: not a valid {what}: {reason}")]
    Json {
        /// The file.
        path: PathBuf,
        /// The expected content, e.g. `config.json`.
        what: &'static str,
        /// Where and why parsing failed.
        reason: String,
    },
    /// A weight source or gradient sink failed.
    #[error(transparent)]
    WeightSource(Box<dyn std::error::Error + Send + Sync>),
    /// A model configuration that is inconsistent or not supported.
    #[error("model configuration: {0}")]
    Config(String),
    /// A required file is missing from a checkpoint folder.
    #[error("{path}: no {what} in this checkpoint folder; expected {expected}")]
    MissingFile {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
        /// The accepted file names.
        expected: &'static str,
    },
    /// A weight file is damaged, hostile, or of another kind.
    #[error("{path}: {what}: {reason}")]
    WeightFile {
        /// The file.
        path: PathBuf,
        /// The expected format.
        what: &'static str,
        /// The cause, and a remedy if known.
        reason: String,
    },
    /// A tensor of the architecture is missing from the checkpoint.
    #[error(
        "{path}: tensor `{name}` is missing; the configuration asks for {layers} layers, does config.json belong to these weights?"
    )]
    MissingTensor {
        /// The checkpoint folder.
        path: PathBuf,
        /// The tensor's Hugging Face name.
        name: String,
        /// The number of layers of the configuration.
        layers: usize,
    },
    /// A tensor of the checkpoint has the wrong shape.
    #[error("{path}: tensor `{name}` has shape {found:?}, the configuration asks for {expected:?}")]
    Shape {
        /// The checkpoint folder.
        path: PathBuf,
        /// The tensor's Hugging Face name.
        name: String,
        /// The shape in the file.
        found: Vec<usize>,
        /// The shape required by the configuration.
        expected: Vec<usize>,
    },
    /// A tensor of the checkpoint is not part of the model.
    #[error(
        "{path}: tensor `{name}`{more} is not part of a model of {layers} layers as config.json describes it; does \
         config.json belong to these weights?",
        more = if *others > 0 { format!(" (like {others} more)") } else { String::new() }
    )]
    UnusedTensor {
        /// The file.
        path: PathBuf,
        /// The tensor's name.
        name: String,
        /// The number of other such tensors.
        others: usize,
        /// The number of layers of the configuration.
        layers: usize,
    },
    /// A weight of the checkpoint is NaN or infinite.
    #[error(
        "{path}: tensor `{name}`, element {index}: the weight is not finite; the training that wrote it diverged, or the \
         file is damaged: use an earlier checkpoint, or a new copy"
    )]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor's Hugging Face name.
        name: String,
        /// Index of the first such element.
        index: usize,
    },
    /// A tensor has a number format that cannot be loaded.
    #[error("{path}: tensor `{name}` has number format {dtype}; {supported} can be loaded")]
    Dtype {
        /// The checkpoint folder.
        path: PathBuf,
        /// The tensor's Hugging Face name.
        name: String,
        /// The format in the file.
        dtype: String,
        /// The formats that can be loaded from such a file.
        supported: &'static str,
    },
    /// A file's size or checksum differs from what was written.
    #[error("{path}: damaged: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How it differs.
        reason: String,
    },
    /// An adapter does not fit a model.
    #[error("{path}: this adapter does not fit the model: {reason}")]
    Adapter {
        /// The adapter's folder.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// An unusable tokenizer file.
    #[error("{path}: {reason}")]
    Tokenizer {
        /// The tokenizer file or its folder.
        path: PathBuf,
        /// The cause and the remedy.
        reason: String,
    },
    /// Text could not be encoded, or tokens could not be decoded.
    #[error("{path}: this tokenizer cannot {action} a text: {reason}")]
    Encoding {
        /// The tokenizer file.
        path: PathBuf,
        /// `encode` or `decode`.
        action: &'static str,
        /// The cause.
        reason: String,
    },
    /// A generation request that cannot be completed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// An invalid engine configuration.
    #[error("generation: {0}")]
    Generation(String),
    /// An inconsistent packed batch.
    #[error("batch: {0}")]
    Batch(String),
    /// A device is unusable or has too little memory.
    #[error(transparent)]
    Ops(#[from] spag_ops::Error),
    /// The disk has too little space for a model.
    #[error(
        "{path}: this model needs {needed}, and {free} are free on this disk; choose a smaller model or another disk",
        needed = format_gib(*needed),
        free = format_gib(*free)
    )]
    Disk {
        /// The folder.
        path: PathBuf,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// An error of the tensor library.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

/// Result with this crate's [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The request error of text that the tokenizer cannot encode or decode.
    pub(crate) fn of_text(self) -> RequestError {
        match self {
            Self::Encoding { path, action, reason } => RequestError::Encoding { path, action, reason },
            other => RequestError::Setting(other.to_string()),
        }
    }
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::Request(error) => error.class(),
            Self::Ops(error) => error.class(),
            Self::Candle(_) => ErrorClass::Failure,
            // All others are caused by a file, a setting or a text.
            _ => ErrorClass::BadInput,
        }
    }
}
