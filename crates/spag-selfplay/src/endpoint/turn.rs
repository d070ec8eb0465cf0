//! A turn that an endpoint is asked for, and why it may have no utterance.

use spag_game::TurnFailure;
use spag_io::TurnPrompt;

/// A turn that an endpoint is asked for.
#[derive(Clone, Debug)]
pub struct EndpointTurn {
    /// The game; in a pool, its turns go to one server where possible.
    pub game: usize,
    /// What is asked.
    pub prompt: TurnPrompt,
    /// The turn's seed.
    pub seed: u64,
    /// The sampling temperature; that of the [`EndpointConfig`](crate::EndpointConfig) if absent.
    pub temperature: Option<f64>,
    /// What the utterance must be one of; anything if empty. Servers that are not known to accept a list fail the turn.
    pub choices: Vec<String>,
}

/// Why an endpoint gives no utterance.
#[derive(Debug, thiserror::Error)]
pub enum NoUtterance {
    /// This turn failed.
    #[error("{0}")]
    Turn(TurnFailure),
    /// Every turn would fail: a refused key, an unknown model.
    #[error("{0}")]
    Fatal(String),
}
