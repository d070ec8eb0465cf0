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
    /// The vocabulary of the tokenizer has no bytes that grammars can be compared with.
    #[error("this tokenizer's vocabulary cannot be held to grammars: {}", quote(.0))]
    Vocabulary(String),
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        ErrorClass::BadInput
    }
}
