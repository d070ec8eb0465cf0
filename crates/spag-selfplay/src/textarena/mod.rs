//! TextArena's own games, each played by a child process of Python.

mod answer;
mod process;
mod settings;
mod table;

use std::sync::{Mutex, PoisonError};

use rand::RngCore;
use serde_json::{Map, Value, json};
use spag_game::{EpisodeView, Game, GameSpec, Judge, Labels, Match, RecordedTextArena, Result};
use spag_io::TurnPrompt;

pub use settings::PythonSettings;

use process::Process;
use table::RemoteMatch;

/// A game of the TextArena package. Each game under way has a process, which later games use again.
///
/// A failure of a process is a fault of its game. Records have a transcript and are read without Python.
#[derive(Debug)]
pub struct TextArena {
    recorded: RecordedTextArena,
    python: PythonSettings,
    /// Processes without a game.
    idle: Mutex<Vec<Process>>,
}

impl TextArena {
    /// The game of these settings. No process is started before a game is.
    pub fn new(recorded: RecordedTextArena, python: PythonSettings) -> Self {
        Self { recorded, python, idle: Mutex::default() }
    }

    /// A process, new or used before.
    fn process(&self) -> std::result::Result<Process, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| Process::start(&self.python, self.recorded.name()), Ok)
    }

    /// Keeps a process that works for later games.
    fn keep(&self, process: Process) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
    }
}

impl Game for TextArena {
    fn labels(&self) -> &'static Labels {
        self.recorded.labels()
    }

    fn settings(&self) -> Map<String, Value> {
        self.recorded.settings()
    }

    fn record_keys(&self) -> Map<String, Value> {
        self.recorded.record_keys()
    }

    fn start(&self, spec: &GameSpec) -> Result<Box<dyn Match + '_>> {
        let reset = json!({"type": "reset", "seed": spec.seed, "options": self.recorded.options()});
        Ok(Box::new(RemoteMatch::start(self, &reset)))
    }

    fn judge(&self) -> Box<dyn Judge + '_> {
        self.recorded.judge()
    }

    fn training_prompt(
        &self,
        episode: &EpisodeView<'_>,
        utterance: usize,
        rng: &mut dyn RngCore,
    ) -> Result<TurnPrompt> {
        self.recorded.training_prompt(episode, utterance, rng)
    }
}
