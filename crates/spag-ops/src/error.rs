//! The error type of this crate.

use spag_io::{Classify, ErrorClass, format_gib};

/// Errors of this crate, one variant per cause. Ops return candle's errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A device is unusable.
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
    /// An invalid sampling setting.
    #[error("generation: {0}")]
    Sampling(String),
    /// An error of the tensor library.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

/// Result with this crate's [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Device { .. } | Self::Memory(_) | Self::Sampling(_) => ErrorClass::BadInput,
            Self::Candle(_) => ErrorClass::Failure,
        }
    }
}

/// A computation needs more memory than is free.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "too little memory: {what} needs {needed}, and {free} are free {place}; {advice}{table}",
    needed = format_gib(*needed),
    free = format_gib(*free)
)]
pub struct TooLittleMemory {
    /// The computation.
    pub what: String,
    /// Bytes that are needed.
    pub needed: u64,
    /// Bytes that are free.
    pub free: u64,
    /// The memory: "on cuda:0 (…)", "on the host".
    pub place: String,
    /// What to change.
    pub advice: String,
    /// The parts of `needed`, each preceded by a line break; may be empty.
    pub table: String,
}

impl From<TooLittleMemory> for Error {
    fn from(error: TooLittleMemory) -> Self {
        Self::Memory(Box::new(error))
    }
}
