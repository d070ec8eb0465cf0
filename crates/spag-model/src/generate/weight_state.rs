//! Which version of the weights an engine has.

use crate::error::{Error, Result};

/// Which weights an engine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WeightState {
    /// Those of one version.
    Version(u64),
    /// Some layers of one version and some of another, because a refresh to this version failed.
    Mixed(u64),
}

impl Default for WeightState {
    fn default() -> Self {
        Self::Version(0)
    }
}

impl WeightState {
    /// Refuses mixed weights.
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
