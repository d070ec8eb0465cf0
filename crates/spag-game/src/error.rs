//! The error of this crate.

use std::path::PathBuf;

use spag_io::{Classify, ErrorClass, quote};

use crate::failure::PolicyError;
use crate::seat::Seat;

/// Why a game, an episode or a file could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written, or a row of it is invalid.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// A line of a word list is invalid.
    #[error("{path}: line {line}: {reason}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// 1-based line.
        line: usize,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A prompt file is invalid.
    #[error("{path}: prompts: {reason}", path = path.display())]
    Prompts {
        /// The file.
        path: PathBuf,
        /// Which key is wrong and what it needs.
        reason: String,
    },
    /// What a game is about is invalid.
    #[error("{what} \"{}\": {reason}", quote(item))]
    Item {
        /// What the game calls it: [`Labels::item`](crate::Labels::item).
        what: &'static str,
        /// The item.
        item: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The name of a judge is unknown.
    #[error("unknown judge \"{}\"; there are \"paper\" and \"whole-word\"", quote(name))]
    UnknownJudge {
        /// The name.
        name: String,
    },
    /// The name of a game is unknown.
    #[error("unknown game \"{name}\"; {hint}")]
    UnknownGame {
        /// The name, quoted.
        name: String,
        /// The nearest name, or all names.
        hint: String,
    },
    /// An option of a game is unknown or its value is invalid.
    #[error("{game}: option \"{option}\" {reason}")]
    GameOption {
        /// The game.
        game: &'static str,
        /// The option.
        option: String,
        /// What is wrong and what it needs.
        reason: String,
    },
    /// The data of a game are missing, or it takes none.
    #[error("{game}: {reason}")]
    GameData {
        /// The game.
        game: String,
        /// What is wrong and what it needs.
        reason: &'static str,
    },
    /// The utterances of an episode are not in the order of the seats.
    #[error("utterance {number} is the {found}'s, but it was the {expected}'s turn", number = index + 1)]
    RolesOutOfOrder {
        /// 0-based index in the history; the message counts from 1.
        index: usize,
        /// The seat of the utterance.
        found: Seat,
        /// The seat whose turn it was.
        expected: Seat,
    },
    /// A recorded game is of another game than those that are read.
    #[error("the game is {}, not {expected}; a file is read as games of one kind, that of its first row", quote(found))]
    OtherGame {
        /// Its name.
        found: String,
        /// The game that is read.
        expected: &'static str,
    },
    /// A recorded game has no end.
    #[error("the game is not decided after its {utterances} utterances")]
    Unfinished {
        /// Their number.
        utterances: usize,
    },
    /// A recorded game goes on after its end.
    #[error("the game had ended after {utterances} utterances")]
    Ended {
        /// The utterances up to its end.
        utterances: usize,
    },
    /// A record of a game whose rules are not in this program does not say how it went.
    #[error("the transcript of the game {reason}; only games that were played to their end have one")]
    Transcript {
        /// What is wrong.
        reason: &'static str,
    },
    /// A game whose records can be read, but which this part of the program cannot play.
    #[error("{game} is played by spag-play, spag arena and spag run; here its records can be read only")]
    PlayedElsewhere {
        /// Its name.
        game: String,
    },
    /// A player failed to accept a turn.
    #[error("game {number}, {seat}'s turn: {source}")]
    Submit {
        /// The number of the game.
        number: usize,
        /// The seat of the turn.
        seat: Seat,
        /// The player's error.
        source: PolicyError,
    },
    /// A player with open turns failed.
    #[error("{player} failed: {source}")]
    Poll {
        /// Which player.
        player: String,
        /// Its error.
        source: PolicyError,
    },
    /// A player replied to a turn that is not open.
    #[error("{player} gave a reply in game {number}, in which it has no open turn")]
    UnexpectedReply {
        /// Which player.
        player: String,
        /// The number of the game.
        number: usize,
    },
    /// A game failed, and the sink accepts no failed games.
    #[error("game {number}, {seat}'s turn: {reason}")]
    GameFailed {
        /// The number of the game.
        number: usize,
        /// The seat of the failed turn.
        seat: Seat,
        /// Why there is no utterance.
        reason: String,
    },
    /// Too many consecutive games failed.
    #[error("{count} games in a row failed, the last one: {last}")]
    TooManyFailedGames {
        /// Their number.
        count: usize,
        /// The last one, an [`Error::GameFailed`].
        last: Box<Error>,
    },
    /// Two games with one number were played at the same time.
    #[error("two running games have number {number}; give each a number of its own")]
    DuplicateGame {
        /// The number.
        number: usize,
    },
    /// Recorded games have other players or settings.
    #[error(
        "{path}: row {row}: played with other settings: {difference}; play with the same players and settings, delete \
         the file to play its games again, or play into another",
        path = path.display()
    )]
    OtherPlayers {
        /// The record.
        path: PathBuf,
        /// 1-based line.
        row: usize,
        /// The settings that differ, then and now.
        difference: String,
    },
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::File(error) => error.class(),
            Self::Submit { source, .. } | Self::Poll { source, .. } => source.class(),
            Self::UnexpectedReply { .. } | Self::GameFailed { .. } | Self::TooManyFailedGames { .. } => {
                ErrorClass::Failure
            }
            Self::Line { .. }
            | Self::Prompts { .. }
            | Self::Item { .. }
            | Self::UnknownJudge { .. }
            | Self::UnknownGame { .. }
            | Self::GameOption { .. }
            | Self::GameData { .. }
            | Self::RolesOutOfOrder { .. }
            | Self::OtherGame { .. }
            | Self::Unfinished { .. }
            | Self::Ended { .. }
            | Self::Transcript { .. }
            | Self::PlayedElsewhere { .. }
            | Self::DuplicateGame { .. }
            | Self::OtherPlayers { .. } => ErrorClass::BadInput,
        }
    }
}
