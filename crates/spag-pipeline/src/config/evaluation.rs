//! How models are measured: games against the imitation model and each other, benchmarks, and rules that stop a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use spag_eval::{Task, TaskSource};
use spag_io::Range as _;
use spag_model::{DtypeChoice, Sampling};
use spag_selfplay::SamplingSettings;
use spag_selfplay::limits::{Games, GamesOrNone};

use super::flat::{self, Part};
use crate::error::Result;

spag_io::ranges! {
    /// Rows of a task.
    Rows: usize = 1..=usize::MAX;
    /// A share above which a rule stops the run.
    Share: f64 = 0.0..=1.0;
}

/// `[evaluation]`: games between the models of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvaluationSettings {
    /// Which games are played.
    #[serde(flatten)]
    pub play: EvaluationGames,
    /// How tokens are drawn; `top_k` is 50 by default, as in the reference.
    #[serde(flatten)]
    pub sampling: SamplingSettings,
}

/// The games of the evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationGames {
    /// Games of each model against the imitation model, per seat, on words of the training.
    #[serde(deserialize_with = "Games::read")]
    pub games: usize,
    /// The same on words that were held out; as many as `games` if absent.
    #[serde(deserialize_with = "Games::read")]
    pub held_out_games: Option<usize>,
    /// Games of the last model against itself, or 0.
    #[serde(deserialize_with = "GamesOrNone::read")]
    pub self_play_games: usize,
    /// Games of every two epochs against each other, per seat, or 0. With them the report rates all models.
    #[serde(deserialize_with = "GamesOrNone::read", skip_serializing_if = "is_zero")]
    pub arena_games: usize,
    /// Seed of the evaluation games, independent of the run's seed.
    pub seed: u64,
    /// Epochs to evaluate, from 1; all if absent.
    pub epochs: Option<Vec<usize>>,
    /// Number of words whose games the report shows.
    #[serde(deserialize_with = "GamesOrNone::read")]
    pub sample_games: usize,
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

impl Default for EvaluationGames {
    fn default() -> Self {
        Self {
            games: 600,
            held_out_games: None,
            self_play_games: 300,
            arena_games: 0,
            seed: 1_000_003,
            epochs: None,
            sample_games: 6,
        }
    }
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        let top_k = Some(Sampling::REFERENCE_TOP_K);
        Self { play: EvaluationGames::default(), sampling: SamplingSettings { temperature: 1.0, top_k, top_p: None } }
    }
}

impl<'de> Deserialize<'de> for EvaluationSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let [play, sampling] =
            flat::read(deserializer, [Part::new::<EvaluationGames>(), Part::new::<SamplingSettings>()])?;
        Ok(Self { play: play.finish()?, sampling: sampling.finish()? })
    }
}

/// `[benchmarks]`: tasks that the base model, the imitation model and the model of each epoch are scored on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BenchmarkSettings {
    /// A file of tasks, or `tiny` for the built-in ones of the small world, which is the default of this table.
    pub tasks: PathBuf,
    /// The folder of the tasks' data; that of their file if absent.
    pub data_dir: Option<PathBuf>,
    /// The first rows of each task only; all if absent.
    #[serde(deserialize_with = "Rows::read")]
    pub limit: Option<usize>,
    /// Models that are scored on all rows in spite of `limit`: `base`, `last`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub whole: Vec<WholeFor>,
    /// Number format of the weights: `f32`, `bf16`, or `auto`, which is f32 on a CPU.
    #[serde(skip_serializing_if = "DtypeChoice::is_auto")]
    pub dtype: DtypeChoice,
    /// Ask in chats, with each model's own template, as `spag eval --apply_chat_template`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub apply_chat_template: bool,
}

impl BenchmarkSettings {
    /// The tasks for a model with the first `limit` rows of each, and the chat template that their contexts are written with.
    ///
    /// # Errors
    /// Tasks or data that cannot be read, or a model without a template if one is asked for.
    pub(crate) fn load_tasks(&self, limit: Option<usize>, model: &Path) -> Result<(Arc<[Task]>, Option<String>)> {
        let source = TaskSource { tasks: &self.tasks, data_dir: self.data_dir.as_deref(), limit };
        if !self.apply_chat_template {
            return Ok((source.load()?, None));
        }
        let (tasks, template) = source.load_as_chats(model)?;
        Ok((tasks, Some(template)))
    }
}

/// A model that is scored on all rows of benchmarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WholeFor {
    /// The base model.
    Base,
    /// The model of the last epoch.
    Last,
}

impl Default for BenchmarkSettings {
    fn default() -> Self {
        Self {
            tasks: PathBuf::from("tiny"),
            data_dir: None,
            limit: None,
            whole: Vec::new(),
            dtype: DtypeChoice::Auto,
            apply_chat_template: false,
        }
    }
}

/// `[stop_when]`: shares of a round's games or utterances above which the run stops with a report, before it trains on them.
/// Absent rules stop nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StopRules {
    /// Empty utterances among all.
    #[serde(deserialize_with = "Share::read")]
    pub empty_utterances: Option<f64>,
    /// Utterances that repeat an earlier one of their game, among all.
    #[serde(deserialize_with = "Share::read")]
    pub repeated_utterances: Option<f64>,
    /// The attacker's wins among decided games.
    #[serde(deserialize_with = "Share::read")]
    pub attacker_wins: Option<f64>,
    /// The defender's wins among decided games.
    #[serde(deserialize_with = "Share::read")]
    pub defender_wins: Option<f64>,
    /// Games in which the defender's first utterance is a guess, among all.
    #[serde(deserialize_with = "Share::read")]
    pub early_guesses: Option<f64>,
    /// Ties among all games.
    #[serde(deserialize_with = "Share::read")]
    pub ties: Option<f64>,
}

/// `[hardware]`: what `spag run --plan` assumes, as in a plan file of `spag plan`. Nothing else depends on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HardwareSettings {
    /// The kind of GPU: `a100-40`, `a100-80`, `h100`, `h200`, or `cpu`.
    pub gpu: Option<String>,
    /// GPUs in all, one rank each.
    pub gpus: Option<usize>,
    /// GPUs per host.
    pub gpus_per_node: Option<usize>,
    /// GiB per GPU, if other than that of its kind.
    pub gpu_memory: Option<f64>,
    /// GiB per host.
    pub host_memory: Option<f64>,
    /// Gbit/s between hosts, per host and in each direction.
    pub network: Option<f64>,
}
