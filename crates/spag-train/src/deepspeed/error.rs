//! What can be wrong with a DeepSpeed file.

use std::path::PathBuf;

/// A DeepSpeed file that cannot be trained with.
#[derive(Debug, thiserror::Error)]
pub enum DeepSpeedError {
    /// The file cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is not JSON, or gives a key twice.
    #[error("{path}: {source}", path = path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The fault with its line and column.
        source: serde_json::Error,
    },
    /// The JSON says something that cannot be followed.
    #[error("{path}: please correct these DeepSpeed settings:{list}", path = path.display(), list = list(problems))]
    Problems {
        /// The file.
        path: PathBuf,
        /// All of them, at least one.
        problems: Vec<Problem>,
    },
}

/// One fault of the settings. Keys are written as paths from the top: `zero_optimization.stage`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The value is not the flag's.
    #[error("`{key}` is {value}, but {flag} is {flag_value}; write \"auto\" to take the flag's value")]
    Mismatch {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// The flag, or what is calculated from several.
        flag: &'static str,
        /// The flag's value.
        flag_value: String,
    },
    /// The value asks for something that DeepSpeed has and this program has not.
    #[error("`{key}`: {value} is not supported; {advice}")]
    Unsupported {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What to do.
        advice: &'static str,
    },
    /// No such setting.
    #[error("`{key}` is unknown{hint}", hint = hint(nearest.as_deref()))]
    Unknown {
        /// The key.
        key: String,
        /// The key that was most likely meant.
        nearest: Option<String>,
    },
    /// The value is of another kind or outside its range.
    #[error("`{key}` must be {expected}, not {value}")]
    Invalid {
        /// The key, or "the file".
        key: String,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        value: String,
    },
    /// Two settings of the file contradict each other.
    #[error("{0}")]
    Inconsistent(String),
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n- {problem}")).collect()
}

fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{name}`?"),
        None => " to DeepSpeed or not known here; remove it if nothing depends on it".to_owned(),
    }
}
