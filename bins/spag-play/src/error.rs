//! The errors of `spag-play`.

use std::path::PathBuf;

use spag_game::Seat;
use spag_io::{Classify, ErrorClass};
use spag_selfplay::ContextBudget;

/// Why games were not played.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlayError {
    /// The context of a model is too short for the rules of the game and an utterance.
    #[error(
        "{}: the {seat}'s first prompt with the word {word:?} has {} tokens and an utterance up to {}, but the model \
         has room for {} in all (its max_position_embeddings); take a model with a longer context, \
         shorter prompts (--prompts), or fewer --max_new_tokens", folder.display(), budget.prompt, budget.utterance, budget.length
    )]
    ContextTooShort {
        folder: PathBuf,
        seat: Seat,
        /// The longest target word.
        word: String,
        budget: ContextBudget,
    },
    /// `--max_length` is too short for the rules of a chat and an utterance. A chat is not cut.
    #[error(
        "--max_length: the {seat}'s first chat has {} tokens and an utterance up to {}, but there is room for {} in all; a chat \
         does not lose its beginning, so give more, or take fewer --max_new_tokens", budget.prompt, budget.utterance, budget.length
    )]
    ChatTooLong { seat: Seat, budget: ContextBudget },
    /// Some games failed: their players gave no utterance.
    #[error(
        "{missing} of {total} games failed (see {}){}; the same command plays them again and nothing else",
        reasons.display(), first.as_ref().map(|first| format!(", the first one: {first}")).unwrap_or_default()
    )]
    GamesFailed {
        missing: usize,
        total: usize,
        /// The file with the reasons.
        reasons: PathBuf,
        /// The first of them with its reason.
        first: Option<String>,
    },
    /// A rank hung or never joined, and the others have played its games.
    #[error("{lost}; all games were played without it and are in {}", results.display())]
    LostRank { lost: spag_dist::Error, results: PathBuf },
}

impl Classify for PlayError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::ContextTooShort { .. } | Self::ChatTooLong { .. } => ErrorClass::BadInput,
            Self::GamesFailed { .. } => ErrorClass::Failure,
            Self::LostRank { .. } => ErrorClass::LostPeer,
        }
    }
}
