//! The version of an engine's weights.

use crate::error::{Error, Result};

/// The state of an engine's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WeightState {
    /// Weights of one version.
    Version(u64),
    /// Layers of different versions, because a refresh to this version failed.
    Mixed(u64),
}

impl Default for WeightState {
    fn default() -> Self {
        Self::Version(0)
    }
}

impl WeightState {
    /// Fails if the weights are mixed.
    pub(super) fn check(self) -> Result<()> {
        match self {
            Self::Version(_) => Ok(()),
            Self::Mixed(version) => Err(Error::Generation(format!(
                "the refresh to version {version} of the weights failed, and some layers are still the old ones; refresh \
                 the engine again"
            ))),
        }
    }
}
