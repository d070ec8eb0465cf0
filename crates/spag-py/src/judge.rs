//! Verdicts on games.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use spag_game::{Episode, Labels, PromptSet, Verdict, judge_episode};

use crate::config::{GameOptions, keywords};
use crate::convert::{episode, episodes, value_error};

/// Judge one game of Adversarial Taboo: its outcome and the number of utterances up to the deciding one.
///
/// The outcome is "attacker wins", "defender wins", "attacker breaks the rules" or "tied game". `judge` is "paper", which finds the
/// target word anywhere in a word, or "whole-word". Use `judge_episodes` for many games.
#[pyfunction]
#[pyo3(signature = (history, target_word, max_turns=None, judge="paper"), text_signature = "(history, target_word, max_turns=5, judge='paper')")]
pub(crate) fn judge(
    history: &Bound<'_, PyAny>,
    target_word: &Bound<'_, PyAny>,
    max_turns: Option<&Bound<'_, PyAny>>,
    judge: &str,
) -> PyResult<(&'static str, usize)> {
    let kind = judge.parse().map_err(value_error)?;
    let verdict = judge_episode(kind, &episode(history, target_word, max_turns)?).map_err(value_error)?;
    Ok(pair(&verdict))
}

/// Judge many games: a list of (outcome, length), as `judge` returns it, in the order of the episodes.
///
/// An episode is a dict with `history`, `target_word` and `max_turns` (5 if absent); other keys are ignored. The first episode says
/// which game all are of: Adversarial Taboo without the key `game_name`.
#[pyfunction]
#[pyo3(signature = (episodes, **config), text_signature = "(episodes, *, judge='paper', game_data=None)")]
pub(crate) fn judge_episodes(
    py: Python<'_>,
    episodes: &Bound<'_, PyAny>,
    config: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<(&'static str, usize)>> {
    let options: GameOptions = keywords("judge_episodes", config)?;
    Ok(judged(py, episodes, &options)?.games.iter().map(|(_, verdict)| pair(verdict)).collect())
}

/// Episodes of one game.
pub(crate) struct Judged {
    /// The names of the game.
    pub(crate) labels: &'static Labels,
    /// All episodes, in order.
    pub(crate) games: Vec<(Episode, Verdict)>,
}

/// Judges all rows as games of the one that the first names.
pub(crate) fn judged(py: Python<'_>, rows: &Bound<'_, PyAny>, options: &GameOptions) -> PyResult<Judged> {
    let episodes = episodes(rows)?;
    let game = options.game_of(&episodes, &PromptSet::default())?;
    let games = py.detach(|| {
        let mut judge = game.judge();
        let judged = (1usize..).zip(episodes).map(|(row, episode)| match judge.judge(&episode.view()) {
            Ok(verdict) => Ok((episode, verdict)),
            Err(error) => Err(format!("row {row}: {error}")),
        });
        judged.collect::<Result<Vec<_>, String>>()
    });
    Ok(Judged { labels: game.labels(), games: games.map_err(value_error)? })
}

fn pair(verdict: &Verdict) -> (&'static str, usize) {
    (verdict.ending.outcome, verdict.history_length)
}
