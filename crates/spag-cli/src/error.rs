//! The error of the programs.

use std::io;

use spag_io::{Classify, ErrorClass, Signal, error_chain};

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a program stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// clap rejected the command line, or was asked for `--help` or `--version`.
    #[error(transparent)]
    Flags(clap::Error),
    /// No error: the command line asked for a text instead of the program's work, as for its completions. It is printed, and the
    /// program succeeds.
    #[error("{0}")]
    Answered(String),
    /// The flag does not exist.
    #[error("unknown flag {flag}{}", nearest.as_ref().map(|name| format!("; the nearest known one is {name}")).unwrap_or_default())]
    UnknownFlag {
        /// The flag as it was given.
        flag: String,
        /// The known flag most like it.
        nearest: Option<String>,
    },
    /// A flag of the reference asks for something that is not supported.
    #[error("{flag} is not supported: {why}{}", instead.as_ref().map(|value| format!(" (only {value})")).unwrap_or_default())]
    Unsupported {
        /// The flag with its value.
        flag: String,
        /// The reason, or the alternative.
        why: String,
        /// The supported values.
        instead: Option<String>,
    },
    /// A flag lacks its value.
    #[error("{flag} needs a value")]
    NoValue {
        /// The flag.
        flag: String,
    },
    /// A flag has an invalid value.
    #[error("{flag}: {problem}")]
    BadValue {
        /// The flag with its value.
        flag: String,
        /// What is wrong with it and what is valid.
        problem: String,
    },
    /// Standard output cannot be written.
    #[error("standard output")]
    Stdout(#[source] io::Error),
    /// The system has no more threads.
    #[error("the threads of this program cannot be started; set RAYON_NUM_THREADS to fewer, or allow more (ulimit -u)")]
    Threads(#[source] io::Error),
    /// A signal handler cannot be installed.
    #[error("signal handlers cannot be installed")]
    Signals(#[source] io::Error),
    /// A signal ended the program early.
    #[error("{message}")]
    Stopped {
        /// The signal, which gives the exit code.
        signal: Signal,
        /// What was done until then and how to continue.
        message: String,
    },
    /// Any other error, with the exit code of the program.
    #[error("{source}")]
    Other {
        /// The exit code.
        exit_code: u8,
        /// The error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// For `map_err`: says of which flag bad input is. Failures stay as they are.
    pub fn of_flag<E: std::error::Error + Classify + Send + Sync + 'static>(flag: &str) -> impl Fn(E) -> Self {
        move |error| match error.class() {
            ErrorClass::BadInput => Self::BadValue { flag: flag.to_owned(), problem: error_chain(&error) },
            ErrorClass::Failure | ErrorClass::LostPeer => error.into(),
        }
    }
}

/// Errors of all libraries: their class gives the exit code.
impl<E: std::error::Error + Classify + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Other { exit_code: error.class().exit_code(), source: Box::new(error) }
    }
}
