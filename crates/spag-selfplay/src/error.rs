//! The error type of this crate.

use spag_io::{Classify, ErrorClass};

/// What a fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of this crate. While games are played, players fail with [`PolicyError`](spag_game::PolicyError) and
/// [`TurnFailure`](spag_game::TurnFailure).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A player of the command line is invalid.
    #[error("player {:?}: {problem}; {syntax}", spag_io::abridge(text, 200))]
    BadPlayer {
        /// The text as written, without passwords.
        text: String,
        /// What is wrong.
        problem: &'static str,
        /// How valid players are written.
        syntax: &'static str,
    },
    /// The key of an endpoint is empty or cannot be sent in a header.
    #[error(
        "{variable}: a key consists of up to 8192 visible ASCII characters, but this one is empty, longer or has others"
    )]
    BadKey {
        /// The environment variable with the key.
        variable: String,
    },
    /// The variable with the key of an endpoint is not set.
    #[error("{}: set the environment variable {variable} to the key of this endpoint", spag_io::quote(endpoint))]
    MissingKey {
        /// The environment variable.
        variable: String,
        /// The endpoint.
        endpoint: String,
    },
    /// A setting of an endpoint is invalid.
    #[error("endpoint: {setting}: {problem}")]
    BadSetting {
        /// The field of [`EndpointConfig`](crate::EndpointConfig).
        setting: &'static str,
        /// Which values are valid.
        problem: &'static str,
    },
    /// An endpoint that completes texts is asked in chats.
    #[error(
        "{endpoint} completes texts and takes no messages; write it as an {chats} endpoint, or use the prompt format plain"
    )]
    NoMessages {
        /// The endpoint.
        endpoint: String,
        /// What endpoints of chats begin with.
        chats: &'static str,
    },
    /// A run has too many games.
    #[error("{0}")]
    TooManyGames(String),
    /// The operating system cannot start more threads.
    #[error("endpoint: cannot start {wanted} threads, one for each request in flight ({source}); allow fewer")]
    Threads {
        /// The number of threads.
        wanted: usize,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The players of an arena cannot be compared.
    #[error("{0}")]
    BadArena(String),
    /// Results cannot be serialised.
    #[error("results as {format}: {message}")]
    Render {
        /// JSON or CSV.
        format: &'static str,
        /// The message of the serialiser.
        message: String,
    },
    /// Other ranks cannot be reached or are lost.
    #[error(transparent)]
    Dist(#[from] spag_dist::Error),
    /// A prompt has no tokens: the model has no template for a chat, or the tokenizer refuses the text.
    #[error(transparent)]
    Prompt(Box<spag_chat::Error>),
    /// An action that the player can never say.
    #[error("the action \"{}\" has more tokens than an utterance, {utterance}", spag_io::quote(action))]
    LongAction {
        /// The action.
        action: String,
        /// The maximum tokens of an utterance.
        utterance: usize,
    },
    /// The exact meter is for Kuhn poker.
    #[error("{game} has no exploitability here; kuhn-poker has")]
    NotKuhnPoker {
        /// The name of the game.
        game: &'static str,
    },
    /// An error of the game, such as an episode that cannot be judged.
    #[error(transparent)]
    Game(#[from] spag_game::Error),
    /// A file could not be read or written, or a row of it is invalid.
    #[error(transparent)]
    File(#[from] spag_io::Error),
    /// An error of a checkpoint or of generation.
    #[error(transparent)]
    Model(#[from] spag_model::Error),
    /// The model's tokens cannot be held to actions.
    #[error(transparent)]
    Grammar(#[from] spag_grammar::Error),
}

impl From<spag_chat::Error> for Error {
    fn from(error: spag_chat::Error) -> Self {
        Self::Prompt(Box::new(error))
    }
}

impl Classify for Error {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Dist(error) => error.class(),
            Self::Prompt(error) => error.class(),
            Self::Game(error) => error.class(),
            Self::File(error) => error.class(),
            Self::Model(error) => error.class(),
            Self::Grammar(error) => error.class(),
            Self::Threads { .. } => ErrorClass::Failure,
            Self::BadPlayer { .. }
            | Self::BadKey { .. }
            | Self::MissingKey { .. }
            | Self::BadSetting { .. }
            | Self::NoMessages { .. }
            | Self::BadArena(_)
            | Self::TooManyGames(_)
            | Self::LongAction { .. }
            | Self::NotKuhnPoker { .. }
            | Self::Render { .. } => ErrorClass::BadInput,
        }
    }
}
