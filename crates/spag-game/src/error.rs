//! The crate's one error type.

use std::path::PathBuf;

/// Everything that can go wrong in this crate, named by cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A row of a JSON or JSONL file is not what it should be.
    #[error("{path}: row {row}: {reason}", path = path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// 1-based row: a line of a JSONL file, an element of a JSON list.
        row: usize,
        /// What is wrong.
        reason: String,
    },
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
    /// A player failed.
    #[error("game {game}, {role}'s turn: {source}")]
    Player {
        /// The first game of the batch that failed.
        game: usize,
        /// Whose turn it was.
        role: crate::Role,
        /// What the player said.
        source: crate::PlayerError,
    },
    /// A player gave another number of replies than it was asked for.
    #[error("a player was asked for {asked} replies and gave {given}")]
    Replies {
        /// Requests.
        asked: usize,
        /// Replies.
        given: usize,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
