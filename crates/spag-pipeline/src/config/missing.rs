//! Inputs that do not exist.

use std::fmt;
use std::path::PathBuf;

/// A file or folder of a setting that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingInput {
    /// The dotted key.
    pub setting: &'static str,
    /// The paths that were looked up.
    pub tried: Vec<PathBuf>,
}

impl fmt::Display for MissingInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tried: Vec<String> = self.tried.iter().map(|path| path.display().to_string()).collect();
        write!(f, "setting `{}`: {} not found", self.setting, tried.join(" or "))
    }
}
