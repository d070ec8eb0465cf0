//! The error of this crate.

use std::path::{Path, PathBuf};

use spag_io::{Classify, ErrorClass, quote};

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why models cannot be evaluated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of tasks is invalid.
    #[error("{path}: {reason}", path = path.display())]
    Tasks {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the task or the line.
        reason: String,
    },
    /// Files of tasks are missing.
    #[error(
        "files of the tasks are missing, {count}: {files}; put them there, choose their folder with --data_dir (data_dir in a \
         configuration), or leave out {tasks} (spag eval --skip_missing)"
    )]
    Missing {
        /// How many.
        count: usize,
        /// The files.
        files: String,
        /// The tasks that need them.
        tasks: String,
    },
    /// A row of a task's data does not fit the task.
    #[error("{path}: row {row}: task `{task}`: {reason}", path = path.display(), task = quote(task))]
    Row {
        /// The data.
        path: PathBuf,
        /// 1-based row, or the line of a CSV file.
        row: usize,
        /// The task.
        task: String,
        /// What is wrong.
        reason: String,
    },
    /// A name is used twice, or cannot be the name of a file.
    #[error("{what} `{name}`: {reason}", name = quote(name))]
    Name {
        /// What it names.
        what: &'static str,
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A record was made with another model, other settings or other data.
    #[error(
        "{path}: these results are of another {what} ({was}, now {now}); choose another output folder, or delete this file",
        path = path.display(), was = quote(was), now = quote(now)
    )]
    Differs {
        /// The record.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// Its value in the record.
        was: String,
        /// Its value now.
        now: String,
    },
    /// A record is damaged.
    #[error("{path}: {reason}; delete this file and run the command again", path = path.display())]
    Damaged {
        /// The record.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file could not be read or written, or a row of it is invalid.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// An error of a checkpoint or of generation.
    #[error(transparent)]
    Model(#[from] spag_model::Error),
    /// The model has no chat template that can be used.
    #[error(transparent)]
    Chat(#[from] spag_chat::Error),
    /// The digest of a checkpoint cannot be computed.
    #[error(transparent)]
    SelfPlay(#[from] spag_selfplay::Error),
    /// An error of the lexicon.
    #[error(transparent)]
    World(#[from] spag_world::Error),
}

impl Error {
    /// An error of a file of tasks.
    pub(crate) fn tasks(path: &Path, reason: impl Into<String>) -> Self {
        Self::Tasks { path: path.to_owned(), reason: reason.into() }
    }
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Tasks { .. }
            | Self::Missing { .. }
            | Self::Row { .. }
            | Self::Name { .. }
            | Self::Differs { .. }
            | Self::Damaged { .. } => ErrorClass::BadInput,
            Self::File(error) => error.class(),
            Self::Model(error) => error.class(),
            Self::Chat(error) => error.class(),
            Self::SelfPlay(error) => error.class(),
            Self::World(error) => error.class(),
        }
    }
}
