//! The error type of the interpreter.

use std::fmt;

/// Result with this module's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a template, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    line: usize,
    fault: Fault,
}

/// The cause of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The template called `raise_exception` with this text.
    Raised(String),
    /// The template cannot be parsed, an operation fails, or a limit is reached.
    Failed(String),
}

impl Error {
    /// An error of a failed operation.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { line: 0, fault: Fault::Failed(what.into()) }
    }

    /// The error of `raise_exception`.
    pub(crate) fn raised(what: String) -> Self {
        Self { line: 0, fault: Fault::Raised(what) }
    }

    /// The error with a line, if it has none.
    pub(crate) fn at(mut self, line: usize) -> Self {
        if self.line == 0 {
            self.line = line;
        }
        self
    }

    /// The line of the template, counted from 1.
    pub fn line(&self) -> usize {
        self.line.max(1)
    }

    /// What is wrong.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Fault::Raised(what) | Fault::Failed(what)) = &self.fault;
        write!(f, "line {}: {what}", self.line())
    }
}

impl std::error::Error for Error {}

/// Returns an error with a formatted message.
macro_rules! fail {
    ($($text:tt)*) => { Err($crate::jinja::Error::new(format!($($text)*))) };
}
pub(crate) use fail;
