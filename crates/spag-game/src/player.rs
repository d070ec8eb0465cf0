//! Players: whoever answers a prompt with an utterance. The driver does not know how or where the text is made.

use crate::episode::{Episode, Role};

/// One player's turn in one game.
#[derive(Clone, Copy, Debug)]
pub struct TurnRequest<'a> {
    /// Number of the game.
    pub game: usize,
    /// Whose turn it is.
    pub role: Role,
    /// The game so far.
    pub episode: &'a Episode,
    /// The game so far in the playing wording.
    pub prompt: &'a str,
    /// Seed of the game.
    pub game_seed: u64,
    /// Seed of this utterance: drawn from the game's seed and the utterance's place.
    pub seed: u64,
}

/// Why a player could not answer.
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

/// Answers turns, many at a time so that many games advance together.
pub trait Player {
    /// One reply to each request, in order.
    ///
    /// # Errors
    /// The player cannot answer; the games in flight are lost.
    fn respond(&mut self, requests: &[TurnRequest<'_>]) -> Result<Vec<String>, PlayerError>;
}

/// A player that follows a rule: for tests and for scripted opponents.
///
/// ```
/// use spag_game::{
///     AfterDecision, GameSpec, JudgeKind, Outcome, PlayConfig, PromptSet, ScriptedPlayer, Seats, play_games,
/// };
///
/// # fn main() -> spag_game::Result<()> {
/// let mut player = ScriptedPlayer::lines(["What do you drink?", "Hot things.", "With milk?", "Tea, yes."]);
/// let game = GameSpec { game: 0, target_word: "tea".into(), max_turns: 5, seed: 1 };
/// let config = PlayConfig { judge: JudgeKind::Paper, games_in_flight: 8, after_decision: AfterDecision::Stop };
/// play_games([game], Seats::SelfPlay(&mut player), &PromptSet::default(), &config, &mut |finished| {
///     assert_eq!(finished.verdict.outcome, Outcome::AttackerWins);
///     assert_eq!(finished.episode.history.len(), 4);
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedPlayer<F>(F);

impl<F: FnMut(&TurnRequest<'_>) -> String> ScriptedPlayer<F> {
    /// Answers every turn with what `reply` returns.
    pub fn new(reply: F) -> Self {
        Self(reply)
    }
}

impl ScriptedPlayer<()> {
    /// Says the same lines in every game: the k-th as the k-th utterance of the game, and nothing after the last.
    pub fn lines(
        lines: impl IntoIterator<Item = impl Into<String>>,
    ) -> ScriptedPlayer<impl FnMut(&TurnRequest<'_>) -> String> {
        let lines: Vec<String> = lines.into_iter().map(Into::into).collect();
        ScriptedPlayer(move |turn: &TurnRequest<'_>| lines.get(turn.episode.history.len()).cloned().unwrap_or_default())
    }
}

impl<F: FnMut(&TurnRequest<'_>) -> String> Player for ScriptedPlayer<F> {
    fn respond(&mut self, requests: &[TurnRequest<'_>]) -> Result<Vec<String>, PlayerError> {
        Ok(requests.iter().map(&mut self.0).collect())
    }
}
