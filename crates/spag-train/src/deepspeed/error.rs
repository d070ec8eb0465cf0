//! Errors of a DeepSpeed file.

use std::path::PathBuf;

use spag_io::quote;

/// A DeepSpeed file with invalid settings.
#[derive(Debug, thiserror::Error)]
#[error("{path}: please correct these DeepSpeed settings:{list}", path = path.display(), list = list(problems))]
pub struct DeepSpeedError {
    /// The file.
    pub path: PathBuf,
    /// All problems, at least one.
    pub problems: Vec<Problem>,
}

/// One problem of the settings. Keys are paths from the top: `zero_optimization.stage`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The value differs from the flag's.
    #[error("`{key}` is {value}, but {flag} is {flag_value}; write \"auto\" to take the flag's value", key = quote(key))]
    Mismatch {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// The flag, or a formula of several.
        flag: &'static str,
        /// The flag's value.
        flag_value: String,
    },
    /// A feature of DeepSpeed that this program does not have.
    #[error("`{key}`: {value} is not supported; {advice}", key = quote(key))]
    Unsupported {
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What to do.
        advice: &'static str,
    },
    /// An unknown key.
    #[error("`{key}` is unknown{hint}", key = quote(key), hint = hint(nearest.as_deref()))]
    Unknown {
        /// The key.
        key: String,
        /// The most similar known key.
        nearest: Option<String>,
    },
    /// The value has the wrong type or is out of range.
    #[error("`{key}` must be {expected}, not {value}", key = quote(key))]
    Invalid {
        /// The key, or "the file".
        key: String,
        /// The valid values.
        expected: &'static str,
        /// The value.
        value: String,
    },
    /// Two settings of the file contradict each other.
    #[error("{0}")]
    Inconsistent(String),
}

/// Problems that are listed at most.
pub(super) const LISTED: usize = 32;

fn list(problems: &[Problem]) -> String {
    let mut list: String = problems.iter().take(LISTED).map(|problem| format!("\n- {problem}")).collect();
    if let more @ 1.. = problems.len().saturating_sub(LISTED) {
        list += &format!("\n- and {more} more");
    }
    list
}

fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("; did you mean `{name}`?"),
        None => " to DeepSpeed or not known here; remove it if nothing depends on it".to_owned(),
    }
}
