//! Credit assignment in memory.

use spag_game::{Episode, Game, Verdict};

use super::{Credit, Crediting};
use crate::{CreditConfig, CreditSummary, Error, Result, Sample, SampleReasoning};

/// The result of [`assign_rewards`].
#[derive(Clone, Debug, PartialEq)]
pub struct AssignedRewards {
    /// The credited utterances, in the order of the episodes and of play.
    pub samples: Vec<Sample>,
    /// The verdict on each episode, in order.
    pub verdicts: Vec<Verdict>,
    /// Counts of both, and the weights.
    pub summary: CreditSummary,
}

/// Judges every episode of `game`, and turns utterances up to the deciding one into weighted samples, by the rule of `config`.
///
/// A sample's query is the game before the utterance, in a wording drawn from (`config.seed`, index of the episode, index
/// of the utterance), or the messages of play in a chat.
///
/// # Errors
/// An episode cannot be judged (the error names its 1-based row), the samples of a game are too long, or a setting is out
/// of range.
pub fn assign_rewards(episodes: &[Episode], game: &dyn Game, config: &CreditConfig) -> Result<AssignedRewards> {
    config.check()?;
    let mut judge = game.judge();
    let judged = (1..).zip(episodes).map(|(row, episode)| {
        let verdict = judge.judge(&episode.view()).map_err(|source| Error::Judge { row, source })?;
        Ok((episode, verdict))
    });
    let games = judged.collect::<Result<Vec<_>>>()?;
    credit_games(game, &games, &*config.rule(), (config.seed, &config.reasoning))
}

/// Turns utterances of judged games of `game` into weighted samples by a rule, with the seed of their wordings and their reasoning.
///
/// # Errors
/// The samples of a game are too long.
pub fn credit_games(
    game: &dyn Game,
    games: &[(&Episode, Verdict)],
    rule: &dyn Credit,
    (seed, reasoning): (u64, &SampleReasoning),
) -> Result<AssignedRewards> {
    let mut summary = CreditSummary::new(game.labels());
    games.iter().for_each(|(_, verdict)| summary.games.add(verdict));
    summary.weights = rule.weights(&summary.games);
    let counted = rule.counted(&summary.games);
    let rule = counted.as_deref().unwrap_or(rule);
    let crediting = Crediting { rule, game, seed, reasoning };
    let mut samples = Vec::new();
    for (index, (episode, verdict)) in games.iter().enumerate() {
        if rule.has_samples(verdict) {
            samples.extend(crediting.samples(index, &episode.view(), verdict, &mut summary)?);
        }
    }
    Ok(AssignedRewards { samples, verdicts: games.iter().map(|(_, verdict)| *verdict).collect(), summary })
}
