//! The crate's error type.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass};

use crate::memory::TooLittleMemory;

/// Errors of this crate, one variant per cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// A JSON file of a checkpoint is malformed.
    #[error("{path}: not a valid {what}: {source}", path = path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The expected content, e.g. `config.json`.
        what: &'static str,
        /// Where and why parsing failed.
        source: serde_json::Error,
    },
    /// A weight source or gradient sink failed.
    #[error(transparent)]
    WeightSource(Box<dyn std::error::Error + Send + Sync>),
    /// A model configuration that is inconsistent or not supported.
    #[error("model configuration: {0}")]
    Config(String),
    /// A required file is missing from a checkpoint folder.
    #[error("{path}: no {what} in this checkpoint folder; expected {expected}", path = path.display())]
    MissingFile {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
        /// The accepted file names.
        expected: &'static str,
    },
    /// A safetensors file is truncated or corrupt.
    #[error("{path}: not a valid safetensors file: {reason}", path = path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        reason: String,
    },
    /// A tensor of the architecture is missing from the checkpoint.
    #[error("{path}: tensor `{name}` is missing; the configuration asks for {layers} layers, does config.json belong to these weights?", path = path.display())]
    MissingTensor {
        /// The checkpoint folder.
        path: PathBuf,
        /// The tensor's Hugging Face name.
        name: String,
        /// The number of layers of the configuration.
        layers: usize,
    },
    /// A tensor of the checkpoint has the wrong shape.
    #[error("{path}: tensor `{name}` has shape {found:?}, the configuration asks for {expected:?}", path = path.display())]
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
    /// A tensor has a number format that cannot be loaded.
    #[error("{path}: tensor `{name}` has number format {dtype}; F32, F16 and BF16 can be loaded", path = path.display())]
    Dtype {
        /// The checkpoint folder.
        path: PathBuf,
        /// The tensor's Hugging Face name.
        name: String,
        /// The format in the file.
        dtype: String,
    },
    /// A file's size or checksum differs from what was written.
    #[error("{path}: damaged: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How it differs.
        reason: String,
    },
    /// An unusable tokenizer file.
    #[error("{path}: {reason}", path = path.display())]
    Tokenizer {
        /// The tokenizer file or its folder.
        path: PathBuf,
        /// The cause and the remedy.
        reason: String,
    },
    /// Text could not be encoded, or tokens could not be decoded.
    #[error("tokenizer: {0}")]
    Encoding(String),
    /// An invalid generation request or engine configuration.
    #[error("generation: {0}")]
    Generation(String),
    /// An inconsistent packed batch.
    #[error("batch: {0}")]
    Batch(String),
    /// A device that cannot be used.
    #[error("device {device}: {reason}")]
    Device {
        /// The requested device.
        device: String,
        /// The cause and the remedy.
        reason: String,
    },
    /// A device or the host has too little memory.
    #[error(transparent)]
    Memory(Box<TooLittleMemory>),
    /// An error of the tensor library.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::Candle(_) => ErrorClass::Failure,
            Self::Json { .. }
            | Self::WeightSource(_)
            | Self::Config(_)
            | Self::MissingFile { .. }
            | Self::Safetensors { .. }
            | Self::MissingTensor { .. }
            | Self::Shape { .. }
            | Self::Dtype { .. }
            | Self::Damaged { .. }
            | Self::Tokenizer { .. }
            | Self::Encoding(_)
            | Self::Generation(_)
            | Self::Batch(_)
            | Self::Device { .. }
            | Self::Memory(_) => ErrorClass::BadInput,
        }
    }
}
