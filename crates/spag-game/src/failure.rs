//! Why a player, or one of its turns, has no utterance.

use spag_io::{Classify, ErrorClass};

/// Why a player cannot continue; ends the run.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PolicyError {
    message: String,
    class: ErrorClass,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl PolicyError {
    /// A failure without a source.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), class: ErrorClass::Failure, source: None }
    }

    /// A failure that another setting or player would not have.
    pub fn of_input(message: impl Into<String>) -> Self {
        Self { class: ErrorClass::BadInput, ..Self::new(message) }
    }

    /// An error with a source, whose message it repeats and whose class it has.
    pub fn caused_by(source: impl std::error::Error + Classify + Send + Sync + 'static) -> Self {
        Self { message: source.to_string(), class: source.class(), source: Some(Box::new(source)) }
    }
}

impl Classify for PolicyError {
    fn class(&self) -> ErrorClass {
        self.class
    }
}

/// Why one turn has no utterance. Its game fails; others continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TurnFailure {
    message: String,
    cause: FailureCause,
}

/// What a failed turn says about the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The player: many such failures in a row mean that it is unusable.
    Player,
    /// The text of this game, which the player cannot read. Other games are not affected.
    Text,
}

impl TurnFailure {
    /// A failure of the player.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: FailureCause::Player }
    }

    /// A failure that only the text of this game causes.
    pub fn of_text(message: impl Into<String>) -> Self {
        Self { message: message.into(), cause: FailureCause::Text }
    }

    /// What it says about the next turns.
    pub fn cause(&self) -> FailureCause {
        self.cause
    }
}
