//! Errors of a DeepSpeed file.

use std::path::PathBuf;

use serde_json::Value;
use spag_io::quote;

/// A DeepSpeed file with invalid settings.
#[derive(Debug, thiserror::Error)]
#[error("{path}: please correct these DeepSpeed settings:{list}", list = list(problems))]
pub struct DeepSpeedError {
    /// The file.
    pub path: PathBuf,
    /// All problems, at least one. Keys in them are paths from the top: `zero_optimization.stage`.
    pub problems: Vec<String>,
}

/// Problems that are listed at most.
pub(super) const LISTED: usize = 32;

fn list(problems: &[String]) -> String {
    let mut list: String = problems.iter().take(LISTED).map(|problem| format!("\n- {problem}")).collect();
    if let more @ 1.. = problems.len().saturating_sub(LISTED) {
        list += &format!("\n- and {more} more");
    }
    list
}

/// The value has the wrong type or is out of range.
pub(super) fn invalid(key: &str, expected: &str, value: &Value) -> String {
    format!("`{}` must be {expected}, not {}", quote(key), shown(value))
}

/// What a problem of a feature that this program does not have begins with.
pub(super) fn unsupported(key: &str) -> String {
    format!("`{}`: ", quote(key))
}

/// A value as JSON for a message, shortened if it is long.
pub(super) fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    let text = match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    };
    spag_io::escape(&text).into_owned()
}
