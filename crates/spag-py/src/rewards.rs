//! Credit.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::config::{CreditOptions, keywords};
use crate::convert::{episodes, value_error, write};

/// Judge episodes and turn the winners' utterances into samples, as the program spag-assign-rewards does.
///
/// The keyword arguments are its flags: `decay_weight`, `reward_norm`, `seed`, `judge`, `game_data`, `prompts` (a file),
/// `prompt_format`, `reasoning` ("think", "boxed" or "none"), `reasoning_tags` and `keep_reasoning`. A sample is a dict with `query`, `target`, `reward`, `role` and `weight`, or with `messages` in place of `query`
/// and `target` if `prompt_format` is "chat". The weights depend on all episodes, so pass all of them at once.
#[pyfunction]
#[pyo3(
    signature = (episodes, **config),
    text_signature = "(episodes, *, decay_weight=0.8, reward_norm='sum', seed=0, judge='paper', game_data=None, prompts=None, prompt_format='plain', reasoning='think', reasoning_tags='<think> </think>', keep_reasoning=False)"
)]
pub(crate) fn assign_rewards<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = episodes)] episodes: Vec<spag_game::Episode>,
    config: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    let options: CreditOptions = keywords("assign_rewards", config)?;
    let game = options.game.game_of(&episodes, &options.prompts.load()?)?;
    let credited = py.detach(|| spag_rewards::assign_rewards(&episodes, &*game, &options.credit));
    let samples = credited.map_err(value_error)?.samples;
    let rows = samples.iter().map(|sample| write(py, sample)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, rows)
}
