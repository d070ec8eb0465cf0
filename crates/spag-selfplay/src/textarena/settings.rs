//! Settings of the processes.

use std::time::Duration;

/// The interpreter, if no other is set.
const PYTHON: &str = "python3";
/// Seconds for an answer, if no other number is set. The first answer of a process imports TextArena.
const TIMEOUT: f64 = 60.0;

/// How the processes are started and waited for.
#[derive(Clone, Debug, PartialEq)]
pub struct PythonSettings {
    /// The interpreter.
    pub python: String,
    /// The time for an answer.
    pub timeout: Duration,
}

impl PythonSettings {
    /// The settings, with their defaults where they are absent: `python3` and 60 seconds.
    pub fn new(python: Option<&str>, timeout_s: Option<f64>) -> Self {
        let timeout = Duration::try_from_secs_f64(timeout_s.unwrap_or(TIMEOUT)).unwrap_or(Duration::MAX);
        Self { python: python.unwrap_or(PYTHON).to_owned(), timeout }
    }
}
