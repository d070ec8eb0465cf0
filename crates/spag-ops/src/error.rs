//! The crate's error type.

use spag_io::{Classify, ErrorClass};

use crate::memory::TooLittleMemory;

/// Errors of this crate, one variant per cause. Ops return candle's errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    /// An invalid setting of sampling.
    #[error("generation: {0}")]
    Sampling(String),
    /// An error of the tensor library.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}

/// Result with this crate's [`Error`], unless another is named.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Device { .. } | Self::Memory(_) | Self::Sampling(_) => ErrorClass::BadInput,
            Self::Candle(_) => ErrorClass::Failure,
        }
    }
}
