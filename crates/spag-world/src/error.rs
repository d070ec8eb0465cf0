//! The error type of this crate.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass};

/// Why a lexicon cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The lexicon file could not be read.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// The lexicon file is not TOML of the expected shape.
    #[error("{path}: not a lexicon: {reason}", path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        reason: String,
    },
    /// The lexicon breaks a rule that [`Lexicon`](crate::Lexicon) documents.
    #[error("{path}: lexicon: {reason}", path = path.display())]
    Rule {
        /// The file.
        path: PathBuf,
        /// Which word and clue, and what is wrong.
        reason: String,
    },
    /// A line of a WordNet file is malformed.
    #[error(
        "{path}, line {line}: not the format of WordNet 3.0; name the folder with data.noun, index.noun, cntlist.rev and noun.exc \
         (Debian's package wordnet-base has them in /usr/share/wordnet)",
        path = path.display()
    )]
    WordNetLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// No word of a list qualifies as a target word.
    #[error("{path}: not written, since no word is left{}", listed(.left_out), path = path.display())]
    NoWords {
        /// The lexicon file.
        path: PathBuf,
        /// Reasons for excluding words, with counts.
        left_out: Vec<(&'static str, usize)>,
    },
}

fn listed(left_out: &[(&'static str, usize)]) -> String {
    left_out.iter().map(|(reason, words)| format!("; {words} are {reason}")).collect()
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::Format { .. } | Self::Rule { .. } | Self::WordNetLine { .. } | Self::NoWords { .. } => {
                ErrorClass::BadInput
            }
        }
    }
}
