//! The stages of a run: `stages.json`, and `done.json` of each that is finished.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// A stage: an entry of `stages.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Its name in reports and in the status of ranks.
    pub name: String,
    /// Its folder in the run folder.
    pub folder: String,
    /// Its parts, in order.
    #[serde(default)]
    pub parts: Vec<String>,
}

impl Stage {
    /// A stage whose folder has its name.
    pub fn new(name: &str, parts: &[&str]) -> Self {
        let parts = parts.iter().map(|part| (*part).to_owned()).collect();
        Self { name: name.to_owned(), folder: name.to_owned(), parts }
    }

    /// The name without a number at its end: stages of one kind take about the same time.
    pub fn kind(&self) -> &str {
        self.name.trim_end_matches(|c: char| c.is_ascii_digit())
    }

    /// Whether its folder lies in the run folder by its name.
    pub(crate) fn is_inside(&self) -> bool {
        let mut parts = Path::new(&self.folder).components().peekable();
        parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
    }
}

/// The content of `done.json`, which is written last and marks a stage as finished.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageDone {
    /// The stage's name.
    pub stage: String,
    /// The seeds of its parts.
    pub seeds: BTreeMap<String, u64>,
    /// Numbers of games, samples, steps …
    pub counts: BTreeMap<String, u64>,
    /// Seconds by part.
    pub seconds: BTreeMap<String, f64>,
    /// Whether the stage was resumed; `seconds` then counts from its last start.
    pub resumed: bool,
}

impl StageDone {
    /// Runs a part of the stage and adds its seconds.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn timed<T, E>(&mut self, part: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let start = Instant::now();
        let result = work()?;
        *self.seconds.entry(part.to_owned()).or_default() += start.elapsed().as_secs_f64();
        Ok(result)
    }

    /// Notes the seed of a part.
    pub fn note_seed(&mut self, part: &str, seed: u64) {
        self.seeds.insert(part.to_owned(), seed);
    }

    /// Notes a number.
    pub fn note_count(&mut self, what: &str, count: usize) {
        self.counts.insert(what.to_owned(), count as u64);
    }

    /// Seconds of all parts; `None` for a stage that has none.
    pub fn total(&self) -> Option<f64> {
        (!self.seconds.is_empty()).then(|| self.seconds.values().sum())
    }
}
