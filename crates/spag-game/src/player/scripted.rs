//! A player that follows a rule.

use super::{Player, PlayerError, PollMode, Reply, TurnRequest};

/// A player that follows a rule and answers at once: for tests and for scripted opponents.
///
/// ```
/// use spag_game::{FinishedGame, GameSpec, Outcome, PlayConfig, PromptSet, ScriptedPlayer, Seats, play_games};
///
/// # fn main() -> spag_game::Result<()> {
/// let mut player = ScriptedPlayer::lines(["What do you drink?", "Hot things.", "With milk?", "Tea, yes."]);
/// let game = GameSpec { game: 0, target_word: "tea".into(), max_turns: 5, seed: 1 };
/// let (prompts, config) = (PromptSet::default(), PlayConfig::default());
/// play_games([game], Seats::SelfPlay(&mut player), &prompts, &config, &mut |finished: FinishedGame| {
///     assert_eq!(finished.verdict.outcome, Outcome::AttackerWins);
///     assert_eq!(finished.episode.history.len(), 4);
///     Ok(())
/// })
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedPlayer<F> {
    rule: F,
    ready: Vec<Reply>,
}

impl<F: FnMut(&TurnRequest<'_>) -> String> ScriptedPlayer<F> {
    /// Answers every turn with what `rule` returns.
    pub fn new(rule: F) -> Self {
        Self { rule, ready: Vec::new() }
    }
}

impl ScriptedPlayer<()> {
    /// Says the same lines in every game: the k-th as the k-th utterance of the game, and nothing after the last.
    pub fn lines(
        lines: impl IntoIterator<Item = impl Into<String>>,
    ) -> ScriptedPlayer<impl FnMut(&TurnRequest<'_>) -> String> {
        let lines: Vec<String> = lines.into_iter().map(Into::into).collect();
        ScriptedPlayer::new(move |turn: &TurnRequest<'_>| {
            lines.get(turn.episode.history.len()).cloned().unwrap_or_default()
        })
    }
}

impl<F: FnMut(&TurnRequest<'_>) -> String> Player for ScriptedPlayer<F> {
    fn submit(&mut self, turn: &TurnRequest<'_>) -> Result<(), PlayerError> {
        let utterance = Ok((self.rule)(turn));
        self.ready.push(Reply { game: turn.game, utterance });
        Ok(())
    }

    fn poll(&mut self, _: PollMode) -> Result<Vec<Reply>, PlayerError> {
        Ok(std::mem::take(&mut self.ready))
    }
}
