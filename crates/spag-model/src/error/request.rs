//! Errors of single requests.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass};

use spag_ops::sample::SampleError;

/// Why one request cannot be completed. Other requests are unaffected, unlike by an [`Error`](super::Error) of the
/// engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The prompt could not be encoded, or the completion could not be decoded.
    #[error("{path}: this tokenizer cannot {action} a text: {reason}")]
    Encoding {
        /// The tokenizer file.
        path: PathBuf,
        /// `encode` or `decode`.
        action: &'static str,
        /// The cause.
        reason: String,
    },
    /// An invalid setting.
    #[error("generation: {0}")]
    Setting(String),
    /// A prompt without tokens: an empty text, with a tokenizer that has no BOS.
    #[error("generation: the prompt has no tokens; give at least one")]
    EmptyPrompt,
    /// A token of the prompt has no embedding.
    #[error(
        "generation: token {token} at position {position} of the prompt is not in the model's vocabulary of {vocabulary}; \
         use the tokenizer of this model"
    )]
    UnknownToken {
        /// The token.
        token: u32,
        /// Its position in the prompt.
        position: usize,
        /// The number of embeddings.
        vocabulary: usize,
    },
    /// The prompt is too long, and must not be truncated.
    #[error(
        "generation: a prompt of {prompt} tokens and {max_new_tokens} new ones exceed max_length {max_length}; shorten the \
         prompt or ask for fewer tokens"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        prompt: usize,
        /// The setting of the request.
        max_new_tokens: usize,
        /// The limit of the engine.
        max_length: usize,
    },
    /// The new tokens alone are too many.
    #[error(
        "generation: max_new_tokens {max_new_tokens} leaves no room for a prompt in max_length {max_length}; ask for fewer \
         tokens"
    )]
    NoRoom {
        /// The setting of the request.
        max_new_tokens: usize,
        /// The limit of the engine.
        max_length: usize,
    },
    /// The KV cache is too small for this request alone.
    #[error(
        "generation: a prompt of {prompt} tokens and {max_new_tokens} new ones need {needed} pages of {page_size} tokens, \
         but the engine has {pages}; give it more memory or ask for fewer tokens"
    )]
    TooFewPages {
        /// Tokens of the prompt.
        prompt: usize,
        /// The setting of the request.
        max_new_tokens: usize,
        /// Pages needed.
        needed: usize,
        /// Tokens per page.
        page_size: usize,
        /// Pages of the engine.
        pages: usize,
    },
    /// The request names an adapter that the engine does not have.
    #[error("generation: no adapter `{name}` is loaded{known}")]
    UnknownAdapter {
        /// The name.
        name: String,
        /// The loaded adapters, as the end of the message.
        known: String,
    },
    /// Every token with non-zero probability is banned, because it would end the completion before
    /// `min_new_tokens`.
    #[error("generation: every token is banned; lower min_new_tokens, or give fewer stop tokens and biases")]
    NoneAllowed,
    /// The grammar of the request cannot continue.
    #[error("generation: the grammar cannot be followed: {0}")]
    Grammar(String),
    /// The logits of the request contain NaN or infinity, with finite weights.
    #[error(
        "{path}: the model's logits are not finite: its weights are so large that a product overflows; use an earlier \
         checkpoint"
    )]
    LogitsNotFinite {
        /// The checkpoint folder.
        path: PathBuf,
    },
}

impl RequestError {
    /// An error of one row of logits, of the checkpoint in `folder`.
    pub(crate) fn of_row(error: SampleError, checkpoint: &std::path::Path) -> Self {
        match error {
            SampleError::NotFinite => Self::LogitsNotFinite { path: checkpoint.to_owned() },
            SampleError::NoneAllowed => Self::NoneAllowed,
        }
    }
}

impl Classify for RequestError {
    fn class(&self) -> ErrorClass {
        ErrorClass::BadInput
    }
}
