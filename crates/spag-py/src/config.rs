//! Keyword arguments: the flags of `spag-assign-rewards`, by their names.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use spag_game::{Episode, Game, JudgeKind, PromptSet, Rules, open_game};
use spag_io::{PromptFormat, Settings, nearest_name, settings};
use spag_rewards::CreditConfig;

use crate::convert::{read, value_error};

settings! {
    /// How games are read: their judge and their words.
    pub(crate) table GameOptions {
        /// Judge of taboo.
        pub(crate) judge: JudgeKind;
        /// The file of words or facts that games were played with, if they are of a game that needs one.
        pub(crate) game_data: Option<PathBuf>;
    }

    /// How games are worded.
    pub(crate) table PromptOptions {
        /// Prompts to use instead of the built-in ones.
        pub(crate) prompts: Option<PathBuf>;
        /// Whether prompts are texts or messages.
        pub(crate) prompt_format: PromptFormat;
    }

    /// The arguments of `assign_rewards`.
    pub(crate) table CreditOptions {} + {
        /// The rule of credit.
        pub(crate) credit: CreditConfig;
        /// The judge.
        pub(crate) game: GameOptions;
        /// The wordings.
        pub(crate) prompts: PromptOptions;
    }
}

impl GameOptions {
    /// The game that the first episode names, as the programs choose the game of a file.
    pub(crate) fn game_of(&self, episodes: &[Episode], prompts: &PromptSet) -> PyResult<Arc<dyn Game>> {
        match episodes.first().and_then(Episode::game) {
            Some((name, options)) => {
                open_game(name, &options, self.game_data.as_deref(), prompts.format()).map_err(value_error)
            }
            None => Ok(Arc::new(Rules { judge: self.judge, ..Rules::default() }.game(prompts))),
        }
    }
}

impl PromptOptions {
    /// The wordings.
    pub(crate) fn load(&self) -> PyResult<PromptSet> {
        let prompts = self.prompts.as_ref().map(PromptSet::load).transpose().map_err(value_error)?;
        Ok(prompts.unwrap_or_default().with_format(self.prompt_format))
    }
}

/// Reads keyword arguments of a function. An unknown one raises TypeError, as Python's own functions do.
pub(crate) fn keywords<S: Settings + serde::de::DeserializeOwned>(
    function: &str,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<S> {
    let Some(given) = given else { return Ok(S::default()) };
    let (known, values) = (S::names(), PyDict::new(given.py()));
    for (key, value) in given {
        let name: String = key.extract()?;
        if !known.contains(&name.as_str()) {
            let hint = match nearest_name(&name, known.iter().copied()) {
                Some(nearest) => format!("did you mean '{nearest}'?"),
                None => format!("it takes {}", known.join(", ")),
            };
            return Err(PyTypeError::new_err(format!(
                "{function}() got an unexpected keyword argument '{name}'; {hint}"
            )));
        }
        // A path of pathlib is its text.
        let path = value.getattr_opt("__fspath__")?;
        values.set_item(key, path.map_or(Ok(value), |fspath| fspath.call0())?)?;
    }
    read(&values).map_err(value_error)
}
