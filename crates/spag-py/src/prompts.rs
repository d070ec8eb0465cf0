//! Wordings: a game as the prompt of the seat to move.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use spag_game::{Episode, PromptSet};
use spag_io::TurnPrompt;

use crate::config::{PromptOptions, keywords};
use crate::convert::{episode, write};

/// The wordings of Adversarial Taboo: `Prompts(prompts=None, prompt_format="plain")`.
///
/// `prompts` is a file of wordings, as of the flag --prompts; the built-in ones without it. A prompt is a text, which a model
/// continues, or with the format "chat" a list of messages with `role` and `content`.
#[pyclass(frozen, module = "spag")]
#[derive(Debug)]
pub(crate) struct Prompts(PromptSet);

#[pymethods]
impl Prompts {
    #[new]
    #[pyo3(signature = (**config), text_signature = "(*, prompts=None, prompt_format='plain')")]
    fn new(config: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Ok(Self(keywords::<PromptOptions>("Prompts", config)?.load()?))
    }

    /// The prompt of the seat to move after `history`, in the one wording of play.
    #[pyo3(signature = (history, target_word, max_turns=None), text_signature = "(self, history, target_word, max_turns=5)")]
    fn playing<'py>(
        &self,
        py: Python<'py>,
        history: &Bound<'py, PyAny>,
        target_word: &Bound<'py, PyAny>,
        max_turns: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Episode { history, item, max_turns, .. } = episode(history, target_word, max_turns)?;
        write_prompt(py, self.0.playing_prompt(&history, &item, max_turns))
    }

    /// The prompt of the seat to move after `history`, in a wording of training that `seed` draws.
    ///
    /// The queries of `assign_rewards` have seeds of their own. A chat has one wording, that of play.
    #[pyo3(signature = (history, target_word, max_turns=None, seed=0), text_signature = "(self, history, target_word, max_turns=5, seed=0)")]
    fn training<'py>(
        &self,
        py: Python<'py>,
        history: &Bound<'py, PyAny>,
        target_word: &Bound<'py, PyAny>,
        max_turns: Option<&Bound<'py, PyAny>>,
        seed: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let episode = episode(history, target_word, max_turns)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        write_prompt(py, self.0.training_prompt_at(&episode.view(), episode.history.len(), &mut rng))
    }

    /// The format: "plain" or "chat".
    #[getter]
    fn prompt_format(&self) -> &'static str {
        self.0.format().name()
    }

    /// The SHA-256 of the file of wordings, in hexadecimal.
    #[getter]
    fn sha256(&self) -> &str {
        &self.0.wordings().sha256
    }

    fn __repr__(&self) -> String {
        format!("<spag.Prompts: wordings of {}>", self.0.wordings())
    }
}

fn write_prompt(py: Python<'_>, prompt: TurnPrompt) -> PyResult<Bound<'_, PyAny>> {
    match prompt {
        TurnPrompt::Plain(text) => write(py, &text.into_text()),
        TurnPrompt::Chat(messages) => {
            let message = |m: &spag_io::ChatMessage| json!({"role": m.role.name(), "content": m.content.text()});
            write(py, &messages.iter().map(message).collect::<Vec<Value>>())
        }
    }
}
