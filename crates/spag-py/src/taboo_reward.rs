//! A reward function for trainers that sample one utterance at a time, such as TRL's GRPOTrainer.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use spag_game::{Episode, JudgeKind, judge_episode};

use crate::convert::{episode, read, value_error};

/// A reward function: what the next utterance of a game decides. `TabooReward(judge="paper", win=1.0, loss=-1.0, undecided=0.0)`.
///
/// Called as TRL's GRPOTrainer calls reward functions, with `prompts`, `completions` and the columns of the data set as lists. A row
/// is a position of a game: `target_word`, `history` (the utterances so far; none if the column is absent) and `max_turns` (5). The
/// completion, a text or a list of messages, is the utterance of the seat to move: the attacker if the history has an even
/// number of utterances. The reward is `win` or `loss` of that seat if the utterance ends the game, else `undecided`. A row whose
/// `target_word` is None has the reward None: it is of another task.
#[pyclass(frozen, module = "spag")]
#[derive(Debug)]
pub(crate) struct TabooReward {
    judge: JudgeKind,
    win: f64,
    loss: f64,
    undecided: f64,
}

#[pymethods]
impl TabooReward {
    #[new]
    #[pyo3(signature = (judge="paper", win=1.0, loss=-1.0, undecided=0.0))]
    fn new(judge: &str, win: f64, loss: f64, undecided: f64) -> PyResult<Self> {
        let judge = judge.parse().map_err(value_error)?;
        Ok(Self { judge, win, loss, undecided })
    }

    /// The name under which trainers log the reward.
    #[getter]
    fn __name__(&self) -> &'static str {
        "taboo_reward"
    }

    #[pyo3(signature = (prompts, completions, **columns))]
    fn __call__<'py>(
        &self,
        prompts: &Bound<'py, PyAny>,
        completions: Vec<Bound<'py, PyAny>>,
        columns: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Option<f64>>> {
        // The prompt is made of the columns: the game is read from these.
        let _ = prompts;
        let column = |name: &str| -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
            let Some(column) = columns.map(|columns| columns.get_item(name)).transpose()?.flatten() else {
                return Ok(None);
            };
            let column: Vec<Bound<'py, PyAny>> = column.extract()?;
            if column.len() != completions.len() {
                let (rows, needed) = (column.len(), completions.len());
                return Err(value_error(format_args!("the column `{name}` has {rows} rows, the completions {needed}")));
            }
            Ok(Some(column))
        };
        let words = column("target_word")?.ok_or_else(|| {
            value_error(
                "there is no column `target_word`; a row of the data set is a position of a game, with its word",
            )
        })?;
        let (histories, turns) = (column("history")?, column("max_turns")?);
        let rows = words.iter().zip(&completions).enumerate().map(|(row, (word, completion))| {
            if word.is_none() {
                return Ok(None);
            }
            let given = |column: &Option<Vec<Bound<'py, PyAny>>>| column.as_ref().map(|c| &c[row]).cloned();
            let (history, turns) = (given(&histories), given(&turns).filter(|turns| !turns.is_none()));
            let history = history.filter(|history| !history.is_none());
            let history = history.unwrap_or_else(|| pyo3::types::PyList::empty(word.py()).into_any());
            let reward = episode(&history, word, turns.as_ref())
                .and_then(|game| self.reward(game, completion))
                .map_err(|error| value_error(format_args!("row {}: {}", row + 1, error.value(word.py()))))?;
            Ok(Some(reward))
        });
        rows.collect()
    }

    fn __repr__(&self) -> String {
        let Self { judge, win, loss, undecided } = self;
        format!("TabooReward(judge='{judge}', win={win:?}, loss={loss:?}, undecided={undecided:?})")
    }
}

impl TabooReward {
    /// The reward of the utterance that follows a game.
    fn reward(&self, mut game: Episode, completion: &Bound<'_, PyAny>) -> PyResult<f64> {
        let (before, seat) = (game.history.len(), game.next_role());
        game.push(seat, text_of(completion)?);
        let verdict = judge_episode(self.judge, &game).map_err(value_error)?;
        // A game without a decision ends with its turns, after which it has no place for an utterance.
        if verdict.history_length <= before {
            let (outcome, length) = (verdict.ending.outcome, verdict.history_length);
            return Err(value_error(format_args!(
                "the game had ended after {length} of the {before} utterances of its history ({outcome})"
            )));
        }
        Ok(match verdict.winner() {
            Some(winner) if winner == seat => self.win,
            Some(_) => self.loss,
            None => self.undecided,
        })
    }
}

/// The text of a completion. Of messages, that of the last one, which is the assistant's.
fn text_of(completion: &Bound<'_, PyAny>) -> PyResult<String> {
    /// A message of a chat.
    #[derive(serde::Deserialize)]
    struct Message {
        content: String,
    }
    if let Ok(text) = completion.cast::<PyString>() {
        return text.extract();
    }
    let messages: Vec<Message> = read(completion).map_err(|why| value_error(format_args!("completion: {why}")))?;
    let last = messages.into_iter().next_back();
    Ok(last.ok_or_else(|| value_error("completion: the list has no messages"))?.content)
}
