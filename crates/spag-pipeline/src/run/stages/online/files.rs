//! The files of an on-policy run that grow with each update, and what a resumed run goes on from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use spag_game::Episode;
use spag_io::{JsonlAppender, read_json, write_json_atomically};
use spag_rewards::EstimatorState;
use spag_run::files;

use super::item_results::ItemResults;
use super::opponents::Pool;
use super::record::UpdateRecord;
use crate::error::Result;
use crate::run::context::RunContext;
use crate::run::stage_folder::StageFolder;

/// What is saved beside a checkpoint of the learner.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Saved {
    /// Updates of the run so far.
    pub(super) updates: usize,
    /// Steps of the learner of the second seat, if it has its own. A checkpoint of a later step is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) second_step: Option<usize>,
    /// The estimator's state.
    pub(super) estimator: EstimatorState,
    /// The opponents.
    #[serde(default)]
    pub(super) pool: Pool,
    /// What came of the words.
    #[serde(default)]
    pub(super) items: ItemResults,
    /// The files.
    pub(super) lengths: Lengths,
}

/// Bytes of the files of an on-policy run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Lengths {
    /// Episodes of the stage, a file for each of the run's games.
    episodes: Vec<u64>,
    /// Metrics of the stage.
    metrics: u64,
    /// Metrics of the run.
    run_metrics: u64,
}

impl Saved {
    fn path(stage: &StageFolder, step: usize) -> PathBuf {
        stage.file(&format!("online-{step}.json"))
    }

    /// What was saved with the learner's step `step`.
    pub(super) fn read(stage: &StageFolder, step: usize) -> Result<Option<Self>> {
        Ok(read_json(Self::path(stage, step))?)
    }

    /// As the next part of the run finds it: its own files are empty.
    pub(super) fn of_part_before(self) -> Self {
        let run_metrics = self.lengths.run_metrics;
        Self { lengths: Lengths { run_metrics, ..Lengths::default() }, ..self }
    }

    /// Saves the state before the learner's checkpoint of this step is written.
    pub(super) fn write(&self, stage: &StageFolder, step: usize) -> Result<()> {
        Ok(write_json_atomically(Self::path(stage, step), self)?)
    }
}

/// The files that grow with each update.
pub(super) struct Files {
    /// Of each of the run's games.
    episodes: Vec<JsonlAppender<Episode>>,
    metrics: JsonlAppender<Map<String, Value>>,
    run_metrics: JsonlAppender<Map<String, Value>>,
}

impl Files {
    /// Opens the files as they were when `saved` was written.
    pub(super) fn open(run: RunContext<'_>, stage: &StageFolder, saved: Option<&Saved>) -> Result<Self> {
        let lengths = saved.map(|saved| saved.lengths.clone()).unwrap_or_default();
        let episodes = run.inputs.games.iter().enumerate().map(|(index, game)| {
            let own = game.folder_in(stage);
            own.create()?;
            let length = lengths.episodes.get(index).copied().unwrap_or_default();
            Ok(JsonlAppender::reopen(own.episodes(), length)?)
        });
        Ok(Self {
            episodes: episodes.collect::<Result<_>>()?,
            metrics: JsonlAppender::reopen(stage.metrics(), lengths.metrics)?,
            run_metrics: JsonlAppender::reopen(run.config.run_dir.join(files::METRICS), lengths.run_metrics)?,
        })
    }

    /// The lengths of the files, once they are on the disk.
    pub(super) fn synced(&self) -> Result<Lengths> {
        self.episodes.iter().try_for_each(JsonlAppender::sync)?;
        self.metrics.sync()?;
        self.run_metrics.sync()?;
        Ok(Lengths {
            episodes: self.episodes.iter().map(JsonlAppender::length).collect::<Result<_, _>>()?,
            metrics: self.metrics.length()?,
            run_metrics: self.run_metrics.length()?,
        })
    }

    /// Appends the games of an update and its line of metrics.
    pub(super) fn append(&mut self, record: &UpdateRecord) -> Result<()> {
        for (index, episode) in &record.episodes {
            if let Some(file) = self.episodes.get_mut(*index) {
                file.append(episode)?;
            }
        }
        self.metrics.append(&record.line)?;
        Ok(self.run_metrics.append(&record.line)?)
    }
}
