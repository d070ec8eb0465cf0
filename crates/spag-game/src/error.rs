//! The crate's one error type.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass};

/// Everything that can go wrong in this crate, named by cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written, or a row of it is invalid.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// A line of a text file is not what it should be.
    #[error("{path}: line {line}: {reason}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// 1-based line.
        line: usize,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A prompt file that cannot be used.
    #[error("{path}: prompts: {reason}", path = path.display())]
    Prompts {
        /// The file.
        path: PathBuf,
        /// Which key is wrong and what it needs.
        reason: String,
    },
    /// A target word that no game can be played with.
    #[error("target word {word:?}: {reason}")]
    TargetWord {
        /// The word.
        word: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// A judge that there is not.
    #[error("unknown judge {name:?}; there are \"paper\" and \"whole-word\"")]
    UnknownJudge {
        /// What was asked for.
        name: String,
    },
    /// An episode whose utterances do not alternate, attacker first.
    #[error("utterance {number} is the {found}'s, but it was the {expected}'s turn", number = index + 1)]
    RolesOutOfOrder {
        /// 0-based place in the history; the message counts from 1.
        index: usize,
        /// Whose utterance it is.
        found: crate::Role,
        /// Whose turn it was.
        expected: crate::Role,
    },
    /// A player could not take a turn on.
    #[error("game {game}, {role}'s turn: {source}")]
    Player {
        /// The game.
        game: usize,
        /// Whose turn it was.
        role: crate::Role,
        /// What the player said.
        source: crate::PlayerError,
    },
    /// A player that had turns open cannot go on at all.
    #[error("{who} cannot go on: {source}")]
    PlayerGone {
        /// Which player.
        who: &'static str,
        /// What it said.
        source: crate::PlayerError,
    },
    /// A player answered where it was not asked.
    #[error("{who} gave a reply in game {game}, where it has no turn open")]
    StrayReply {
        /// Which player.
        who: &'static str,
        /// The game.
        game: usize,
    },
    /// A game that could not be played to its end, where no game may fail.
    #[error("game {game}, {role}'s turn: {reason}")]
    GameFailed {
        /// The game.
        game: usize,
        /// Whose turn it was.
        role: crate::Role,
        /// Why there is no utterance.
        reason: String,
    },
    /// One game after another failed.
    #[error("{count} games in a row could not be played to their end, the last one: {last}")]
    FailedInARow {
        /// How many.
        count: usize,
        /// The last of them, a [`Error::GameFailed`].
        last: Box<Error>,
    },
    /// Two games of the same number were to be played at the same time.
    #[error("there are two games number {game} at a time; give each a number of its own")]
    SameGame {
        /// The number.
        game: usize,
    },
    /// Recorded games were played by others than those who would go on.
    #[error(
        "{path}: row {row}: played by others than now: {difference}; play with the same players and settings, delete \
         the file to play its games again, or play into another",
        path = path.display()
    )]
    OtherPlayers {
        /// The record.
        path: PathBuf,
        /// 1-based line.
        row: usize,
        /// Each setting that differs, then and now.
        difference: String,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::Player { .. }
            | Self::PlayerGone { .. }
            | Self::StrayReply { .. }
            | Self::GameFailed { .. }
            | Self::FailedInARow { .. } => ErrorClass::Failure,
            Self::Line { .. }
            | Self::Prompts { .. }
            | Self::TargetWord { .. }
            | Self::UnknownJudge { .. }
            | Self::RolesOutOfOrder { .. }
            | Self::SameGame { .. }
            | Self::OtherPlayers { .. } => ErrorClass::BadInput,
        }
    }
}
