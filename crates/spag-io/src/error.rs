//! The error type of this crate, and the error class shared by the workspace.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused to read or write a file or folder.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A row of a JSON or JSONL file is invalid.
    #[error("{path}: row {row}: {reason}", path = path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// 1-based row: a line of a JSONL file, an element of a JSON list.
        row: usize,
        /// What is wrong.
        reason: String,
    },
    /// A JSON file that holds one value is invalid.
    #[error("{path}: {reason}", path = path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        reason: String,
    },
    /// A file of rows is empty, without even an empty list.
    #[error(
        "{path}: the file is empty; was it cut off, or is it still to be written? (A list without rows is written as [].)",
        path = path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A file that this process was writing is no longer at its path.
    #[error(
        "{path}: was removed, moved or replaced while this program was writing it; what it wrote there is lost",
        path = path.display()
    )]
    Removed {
        /// The file.
        path: PathBuf,
    },
    /// An output is also an input, or would overwrite a model or results.
    #[error("{}{flag} {problem}", place(path))]
    Output {
        /// The file or folder.
        path: PathBuf,
        /// The flag or setting that names it.
        flag: String,
        /// What would be overwritten, and what to do.
        problem: String,
    },
    /// Another process holds the lock of a file.
    #[error(
        "{path}: another run{process} is writing to this file; wait for it, or write into another",
        path = path.display(),
        process = holder.map(|id| format!(" (process {id})")).unwrap_or_default()
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process that holds it, if known.
        holder: Option<u32>,
    },
}

/// The path as a prefix of a message, or nothing if it is empty.
fn place(path: &Path) -> String {
    if path.as_os_str().is_empty() { String::new() } else { format!("{}: ", path.display()) }
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Turns an I/O error on `path` into an [`Error::Io`], for `map_err`.
    pub fn io(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// Who can fix an error; determines the exit code of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// A flag, a setting or an input file has to change. Exit code 2.
    BadInput,
    /// The same command may succeed at another time or on another machine. Exit code 1.
    Failure,
    /// Another rank of the run failed first; the cause is in its output. Exit code 1, and 3 for `spag launch`.
    LostPeer,
}

impl ErrorClass {
    /// The exit code of a program. The code of [`ErrorClass::LostPeer`] is only for `spag launch`; other parents receive that
    /// of [`ErrorClass::Failure`].
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::BadInput => 2,
            Self::Failure => 1,
            Self::LostPeer => 3,
        }
    }
}

/// An error that states its [`ErrorClass`].
pub trait Classify {
    /// The class of this error. An error that wraps another one returns the class of its cause.
    fn class(&self) -> ErrorClass;
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Io { source, .. } => source.class(),
            Self::Row { .. } | Self::Json { .. } | Self::Empty { .. } | Self::Output { .. } => ErrorClass::BadInput,
            Self::Removed { .. } | Self::InUse { .. } => ErrorClass::Failure,
        }
    }
}

/// A wrong path or a missing permission is bad input; a full or failing disk is a failure.
impl Classify for io::Error {
    fn class(&self) -> ErrorClass {
        // A loop of symbolic links; a socket or a device without a driver. Both have no stable `ErrorKind`.
        if let Some(Errno::LOOP | Errno::NXIO | Errno::NODEV) = Errno::from_io_error(self) {
            return ErrorClass::BadInput;
        }
        match self.kind() {
            ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::AlreadyExists
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::InvalidFilename
            | ErrorKind::NotSeekable
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidData
            | ErrorKind::UnexpectedEof => ErrorClass::BadInput,
            _ => ErrorClass::Failure,
        }
    }
}

/// An error and its causes on one line. Skips causes whose message is already included.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn a_chain_has_each_cause_once() {
        let inner = Layer { text: "line 3: expected a comma", source: None };
        let middle = Layer { text: "a.json: line 3: expected a comma", source: Some(Box::new(inner)) };
        let outer = Layer { text: "cannot read the episodes", source: Some(Box::new(middle)) };
        assert_eq!(error_chain(&outer), "cannot read the episodes: a.json: line 3: expected a comma");
    }

    #[test]
    fn missing_file_is_bad_input_and_full_disk_is_failure() {
        let class = |kind: ErrorKind| Error::io(Path::new("a"))(kind.into()).class();
        assert_eq!(class(ErrorKind::NotFound), ErrorClass::BadInput);
        assert_eq!(class(ErrorKind::StorageFull), ErrorClass::Failure);
    }

    #[cfg(unix)]
    #[test]
    fn loop_of_symbolic_links_is_bad_input() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::os::unix::fs::symlink("a", &path).unwrap();
        let error = std::fs::read(&path).map_err(Error::io(&path)).unwrap_err();
        assert_eq!(error.class(), ErrorClass::BadInput, "{error}");
    }
}
