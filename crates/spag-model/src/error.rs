//! The crate's one error type.

use std::path::PathBuf;

use crate::memory::TooLittleMemory;

/// Everything that can go wrong in this crate, named by cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A JSON file of a checkpoint is not what it should be.
    #[error("{path}: not a valid {what}: {source}", path = path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What the file should hold, e.g. `config.json`.
        what: &'static str,
        /// Where and why parsing stopped.
        source: serde_json::Error,
    },
    /// Whoever lends a pass its weights, or takes its gradients, could not.
    #[error(transparent)]
    WeightSource(Box<dyn std::error::Error + Send + Sync>),
    /// A model configuration that cannot be built or is not supported.
    #[error("model configuration: {0}")]
    Config(String),
    /// A checkpoint folder lacks a file that it needs.
    #[error("{path}: no {what} in this checkpoint folder; expected {expected}", path = path.display())]
    MissingFile {
        /// The folder.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// The file names that would do.
        expected: &'static str,
    },
    /// A safetensors file is truncated or corrupt.
    #[error("{path}: not a valid safetensors file: {reason}", path = path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        reason: String,
    },
    /// A tensor that the architecture needs is not in the checkpoint.
    #[error("{path}: tensor `{name}` is missing; the configuration asks for {layers} layers, does config.json belong to these weights?", path = path.display())]
    MissingTensor {
        /// The checkpoint folder.
        path: PathBuf,
        /// The tensor's Hugging Face name.
        name: String,
        /// The number of layers of the configuration.
        layers: usize,
    },
    /// A tensor of the checkpoint has another shape than the configuration asks for.
    #[error("{path}: tensor `{name}` has shape {found:?}, the configuration asks for {expected:?}", path = path.display())]
    Shape {
        /// The checkpoint folder.
        path: PathBuf,
        /// The tensor's Hugging Face name.
        name: String,
        /// The shape in the file.
        found: Vec<usize>,
        /// The shape that the configuration implies.
        expected: Vec<usize>,
    },
    /// A tensor holds a number format that cannot be loaded.
    #[error("{path}: tensor `{name}` has number format {dtype}; F32, F16 and BF16 can be loaded", path = path.display())]
    Dtype {
        /// The checkpoint folder.
        path: PathBuf,
        /// The tensor's Hugging Face name.
        name: String,
        /// The format in the file.
        dtype: String,
    },
    /// A file is not the one that was written.
    #[error("{path}: damaged: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How it differs.
        reason: String,
    },
    /// A tokenizer file that cannot be used.
    #[error("{path}: {reason}", path = path.display())]
    Tokenizer {
        /// The tokenizer file or its folder.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// Text could not be encoded, or tokens not decoded.
    #[error("tokenizer: {0}")]
    Encoding(String),
    /// A generation request or configuration that can never be served.
    #[error("generation: {0}")]
    Generation(String),
    /// A packed batch that is inconsistent.
    #[error("batch: {0}")]
    Batch(String),
    /// A device that cannot be used.
    #[error("device {device}: {reason}")]
    Device {
        /// The device as it was asked for.
        device: String,
        /// What is missing and what to do.
        reason: String,
    },
    /// A device, or the host, has too little memory for what is about to begin.
    #[error(transparent)]
    Memory(Box<TooLittleMemory>),
    /// An error of the tensor library.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Wraps an I/O error with the path it happened at.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
