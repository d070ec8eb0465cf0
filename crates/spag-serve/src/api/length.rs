//! Length limits of texts, checked before encoding, which takes hundreds of times the memory of a text.

use super::error::ApiError;
use crate::limits::{LONG_TEXT, LONG_TOKENS};
use crate::model::ServedModel;

/// The length limit of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextLength {
    /// It must fit into the context.
    Fits,
    /// It may be longer: only its tokens are counted, or its beginning is truncated.
    Any,
}

impl TextLength {
    /// Refuses a text that has too many tokens for its number of bytes, however it is tokenized.
    ///
    /// # Errors
    /// 400 that names the field `at`.
    pub(crate) fn check(self, at: &str, bytes: usize, model: &ServedModel) -> Result<(), ApiError> {
        let fitting = model.max_length.saturating_mul(model.longest_token);
        let most = match self {
            Self::Fits => fitting,
            Self::Any => fitting.max(LONG_TEXT),
        };
        if bytes <= most { Ok(()) } else { Err(ApiError::long_text(at, bytes, most, model.max_length)) }
    }

    /// The same for a list of tokens.
    ///
    /// # Errors
    /// 400 that names the field `at`.
    pub(crate) fn check_tokens(self, at: &str, tokens: usize, model: &ServedModel) -> Result<(), ApiError> {
        let most = match self {
            Self::Fits => model.max_length,
            Self::Any => model.max_length.max(LONG_TOKENS),
        };
        if tokens <= most {
            return Ok(());
        }
        Err(match self {
            Self::Fits => ApiError::too_long(model.max_length, tokens, 0),
            Self::Any => ApiError::field(at, format_args!("it has {tokens} tokens, more than {most}")),
        })
    }
}
