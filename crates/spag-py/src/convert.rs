//! Values of Python as types of Rust, and errors as exceptions. An error names the row, if there is one, and the key.

use std::fmt::Display;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use pythonize::{Depythonizer, pythonize};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use spag_game::{Episode, ReasoningEnd, Seat, Utterance};

/// The exception of an error.
pub(crate) fn value_error(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Reads a value. The error begins with the path to the part that is wrong, as in "history[3].content: ".
pub(crate) fn read<T: DeserializeOwned>(value: &Bound<'_, PyAny>) -> Result<T, String> {
    serde_path_to_error::deserialize(&mut Depythonizer::from_object(value)).map_err(|error| {
        let message = error.inner().to_string();
        // The library names its kinds of errors; what follows is the message of the type.
        let message = message.strip_prefix("error: ").unwrap_or(&message).to_owned();
        match error.path().iter().next() {
            Some(_) => format!("{}: {message}", error.path()),
            None => message,
        }
    })
}

/// A value as dictionaries, lists, strings and numbers of Python.
pub(crate) fn write<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    pythonize(py, value).map_err(value_error)
}

/// Reads episodes of any iterable. An error names the 1-based row.
pub(crate) fn episodes(rows: &Bound<'_, PyAny>) -> PyResult<Vec<Episode>> {
    let read_row = |(row, value): (usize, PyResult<Bound<'_, PyAny>>)| {
        read_episode(&value?).map_err(|reason| value_error(format_args!("row {row}: {reason}")))
    };
    (1..).zip(rows.try_iter()?).map(read_row).collect()
}

/// One game, of its parts as Python has them.
pub(crate) fn episode(
    history: &Bound<'_, PyAny>,
    target_word: &Bound<'_, PyAny>,
    max_turns: Option<&Bound<'_, PyAny>>,
) -> PyResult<Episode> {
    let row = PyDict::new(history.py());
    row.set_item("history", history)?;
    row.set_item("target_word", target_word)?;
    if let Some(max_turns) = max_turns {
        row.set_item("max_turns", max_turns)?;
    }
    read_episode(&row).map_err(value_error)
}

/// The keys of an episode that all games have. Others may hold what JSON has no form for, such as dates, and are not read.
#[derive(Deserialize)]
#[serde(expecting = "an episode: a dict with `history` and `target_word`")]
struct EpisodeRow {
    history: Vec<UtteranceRow>,
    target_word: String,
    max_turns: Option<usize>,
}

#[derive(Deserialize)]
#[serde(expecting = "an utterance: a dict with `role` and `content`")]
struct UtteranceRow {
    #[serde(rename = "role")]
    seat: Seat,
    content: String,
    reasoning: Option<String>,
    reasoning_end: Option<ReasoningEnd>,
    refusal: Option<IgnoredAny>,
}

fn read_episode(row: &Bound<'_, PyAny>) -> Result<Episode, String> {
    let EpisodeRow { history, target_word, max_turns } = read(row)?;
    let mut episode = Episode::new(target_word, max_turns.unwrap_or(Episode::TURNS));
    episode.history = history.into_iter().map(Utterance::from).collect();
    for key in Episode::KEYS_OF_JUDGES {
        let Ok(value) = row.get_item(key) else { continue };
        // A judge that needs the key says that it is absent.
        if is_finite(&value, 0, &mut 0)
            && let Ok(value) = read(&value)
        {
            episode.extra.insert(key.to_owned(), value);
        }
    }
    Ok(episode)
}

impl From<UtteranceRow> for Utterance {
    fn from(UtteranceRow { seat, content, reasoning, reasoning_end, refusal }: UtteranceRow) -> Self {
        let mut utterance = Self { reasoning, reasoning_end, ..Self::new(seat, content) };
        if refusal.is_some() {
            utterance.extra.insert(Self::REFUSAL.to_owned(), Value::Null);
        }
        utterance
    }
}

/// Levels of lists and dictionaries that are read, as in JSON files.
const MAX_DEPTH: usize = 128;
/// Values in all of them.
const MAX_VALUES: usize = 1 << 24;

/// Whether a value has few enough levels and values to be copied. A list of Python can contain itself.
fn is_finite(value: &Bound<'_, PyAny>, depth: usize, values: &mut usize) -> bool {
    *values += 1;
    if depth > MAX_DEPTH || *values > MAX_VALUES {
        return false;
    }
    let mut is_part_finite = |part: &Bound<'_, PyAny>| is_finite(part, depth + 1, values);
    if let Ok(dict) = value.cast::<PyDict>() {
        dict.iter().all(|(_, part)| is_part_finite(&part))
    } else if let Ok(list) = value.cast::<PyList>() {
        list.iter().all(|part| is_part_finite(&part))
    } else if let Ok(tuple) = value.cast::<PyTuple>() {
        tuple.iter().all(|part| is_part_finite(&part))
    } else {
        true
    }
}
