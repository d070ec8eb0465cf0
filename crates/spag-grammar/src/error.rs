//! The error type of this crate.

use spag_io::{Classify, ErrorClass, quote};

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a grammar could not be compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The language is malformed or exceeds the work limit.
    #[error("the grammar cannot be used: {}", quote(.0))]
    Language(String),
    /// The language is too large.
    #[error("it has {found} {what}, more than {most}, the most that is compiled")]
    TooLarge {
        /// The counted items.
        what: &'static str,
        /// Their number.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// The tokens of the vocabulary have no usable bytes.
    #[error("this tokenizer's vocabulary cannot be held to grammars: {}", quote(.0))]
    Vocabulary(String),
}

/// The public form of a library message. Panic texts are omitted: errors are sent to clients.
pub(crate) fn told(message: String) -> String {
    let is_panic = message.contains("panic:") || message.contains("<backtrace>");
    if is_panic { FAULT.to_owned() } else { message }
}

/// The message for a panic.
pub(crate) const FAULT: &str = "the library that compiles grammars fails on it; write it in another way";

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        ErrorClass::BadInput
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_panics_are_left_out() {
        for panic in ["panic: index out of bounds\n<backtrace>\n 0: a\n</backtrace>", "Parser Error: panic: a"] {
            assert_eq!(told(panic.to_owned()), FAULT);
        }
        assert_eq!(told("invalid regex".to_owned()), "invalid regex");
    }
}
