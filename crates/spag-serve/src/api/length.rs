//! Lengths of texts that are encoded, checked before: encoding takes hundreds of times the memory of a text.

use super::error::ApiError;
use crate::limits::{LONG_TEXT, LONG_TOKENS};
use crate::model::ServedModel;

/// How long a text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextLength {
    /// It has to fit into the context.
    Fits,
    /// It may be longer: its tokens are counted, or its begin is cut.
    Any,
}

impl TextLength {
    /// Refuses a text of so many bytes that it has more tokens than it may have, whatever its tokens are.
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

    /// The same of a list of tokens.
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
