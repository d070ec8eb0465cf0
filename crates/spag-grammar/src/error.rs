//! The error type of this crate.

use spag_io::{Classify, ErrorClass, quote};

/// What a fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no grammar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The language is not written as it must be, or beyond what can be computed.
    #[error("the grammar cannot be used: {}", quote(.0))]
    Language(String),
    /// The language is larger than what is compiled.
    #[error("it has {found} {what}, more than {most}, the most that is compiled")]
    TooLarge {
        /// What it has too many of.
        what: &'static str,
        /// How many it has.
        found: usize,
        /// The most.
        most: usize,
    },
    /// The vocabulary of the tokenizer has no bytes that grammars can be compared with.
    #[error("this tokenizer's vocabulary cannot be held to grammars: {}", quote(.0))]
    Vocabulary(String),
}

/// What a message of the library says. A panic's text is left out: errors are sent to clients.
pub(crate) fn told(message: String) -> String {
    let is_panic = message.contains("panic:") || message.contains("<backtrace>");
    if is_panic { FAULT.to_owned() } else { message }
}

/// What is said of a panic.
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
