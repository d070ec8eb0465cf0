//! What can go wrong with a player: for good, or with a single turn.

/// Why a player cannot go on at all; ends the run.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct PlayerError {
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl PlayerError {
    /// An error with a message of its own.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// An error of what the player is made of.
    pub fn caused_by(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { message: source.to_string(), source: Some(Box::new(source)) }
    }
}

/// Why one turn got no utterance; its game cannot go on, others can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TurnFailure {
    message: String,
}

impl TurnFailure {
    /// A failure, told in `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}
