//! The error type of this crate.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass, quote};

use crate::template::RenderError;

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a prompt cannot be encoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The model has no chat template.
    #[error(
        "{folder}: the model has no chat template, neither chat_template.jinja nor `chat_template` in tokenizer_config.json; use \
         the prompt format plain, or add a template to the folder",
        folder = folder.display()
    )]
    NoTemplate {
        /// The model's folder.
        folder: PathBuf,
    },
    /// The model's chat template cannot be used.
    #[error("{folder}: the chat template is unusable: {}; use the prompt format plain, or repair it", quote(reason), folder = folder.display())]
    Template {
        /// The model's folder.
        folder: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The template fails on these messages.
    #[error("{0}")]
    Render(RenderError),
    /// The messages contain every character that could mark special tokens.
    #[error("{0}")]
    Marks(&'static str),
    /// The template drops the content of the last message.
    #[error("the model's chat template leaves out the last message, so that it cannot be continued")]
    NotContinued,
    /// A setting of reasoning is invalid.
    #[error("{setting}: {problem}")]
    Reasoning {
        /// The setting.
        setting: &'static str,
        /// What is wrong with it, and what to do.
        problem: &'static str,
    },
    /// The tokenizer cannot encode the text.
    #[error(transparent)]
    Model(#[from] spag_model::Error),
}

impl Error {
    /// Whether the error is caused by these messages alone, so that other messages may succeed.
    pub fn is_of_text(&self) -> bool {
        matches!(self, Self::Marks(_) | Self::Model(_))
    }
}

impl From<RenderError> for Error {
    fn from(error: RenderError) -> Self {
        Self::Render(error)
    }
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Model(error) => error.class(),
            Self::NoTemplate { .. }
            | Self::Template { .. }
            | Self::Render(_)
            | Self::NotContinued
            | Self::Marks(_)
            | Self::Reasoning { .. } => ErrorClass::BadInput,
        }
    }
}
