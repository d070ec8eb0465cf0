//! The crate's one error type.

use std::path::PathBuf;

/// What a fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong before games are played, and in counting them. While they are played, players fail
/// with [`PlayerError`](spag_game::PlayerError) and [`TurnFailure`](spag_game::TurnFailure).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A player as it stands on a command line cannot be understood.
    #[error("player {text:?}: {problem}; an endpoint is written openai:http://HOST:PORT/v1#MODEL")]
    BadPlayer {
        /// As it was written; what looks like a password is left out.
        text: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The key of an endpoint cannot be sent.
    #[error("OPENAI_API_KEY: a key is made of visible ASCII characters; this one holds others")]
    BadKey,
    /// A setting of an endpoint cannot be used.
    #[error("endpoint: {setting}: {problem}")]
    BadSetting {
        /// The field of [`EndpointConfig`](crate::EndpointConfig).
        setting: &'static str,
        /// What is wrong with it and what would do.
        problem: String,
    },
    /// There are not so many processes.
    #[error("there is no rank {rank} among {of} processes; ranks count from 0")]
    NoSuchRank {
        /// The process that was meant.
        rank: usize,
        /// How many there are.
        of: usize,
    },
    /// The operating system gives no more threads.
    #[error("endpoint: cannot start {wanted} threads, one for each request in flight ({source}); allow fewer")]
    Threads {
        /// How many were wanted.
        wanted: usize,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file or folder could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A player of an arena as it stands on a command line cannot be understood.
    #[error(
        "player {text:?}: {problem}; it is written NAME=PLAYER, where PLAYER is a checkpoint's folder or an endpoint"
    )]
    BadEntrant {
        /// As it was written; what looks like a password is left out.
        text: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Nobody to compare with.
    #[error("{given} player given; an arena needs at least two, each written NAME=PLAYER")]
    TooFewPlayers {
        /// How many there are.
        given: usize,
    },
    /// Two players of one name.
    #[error(
        "the players {first:?} and {second:?} have the same name, upper and lower case aside; give each a name of its own"
    )]
    SameName {
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
    /// Two pairings whose games would go to one file.
    #[error("{first} and {second} would both write to {file}; give one of the players another name")]
    SameFile {
        /// The file's name.
        file: String,
        /// The one pairing.
        first: String,
        /// The other.
        second: String,
    },
    /// A name that no player has.
    #[error("no player is called {name:?}; there are {known}")]
    UnknownName {
        /// What was asked for.
        name: String,
        /// The players' names.
        known: String,
    },
    /// Results could not be put into their file format.
    #[error("results as {format}: {message}")]
    Render {
        /// JSON or CSV.
        format: &'static str,
        /// What its writer said.
        message: String,
    },
    /// The other processes of a run cannot be reached, or are lost.
    #[error(transparent)]
    Dist(#[from] spag_dist::Error),
    /// From the game: episodes that cannot be judged.
    #[error(transparent)]
    Game(#[from] spag_game::Error),
    /// A file could not be read or written, or a row of it is invalid.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// From the model: checkpoints, generation.
    #[error(transparent)]
    Model(#[from] spag_model::Error),
}
