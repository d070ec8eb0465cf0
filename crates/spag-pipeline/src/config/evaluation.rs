//! How models are measured: games against the imitation model and each other, benchmarks, and rules that stop a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use spag_eval::{Task, TaskSource};
use spag_model::{DtypeChoice, Sampling};

use super::play::{dtype, sampling};
use crate::error::Result;

/// `[evaluation]`: games between the models of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationSettings {
    /// Games of each model against the imitation model, per seat, on words of the training.
    pub games: usize,
    /// The same on words that were held out; as many as `games` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out_games: Option<usize>,
    /// Games of the last model against itself, or 0.
    pub self_play_games: usize,
    /// Games of every two epochs against each other, per seat, or 0. With them the report rates all models.
    #[serde(skip_serializing_if = "is_zero")]
    pub arena_games: usize,
    /// Seed of the evaluation games, independent of the run's seed.
    pub seed: u64,
    /// Sampling temperature; 0 is greedy.
    pub temperature: f64,
    /// Tokens are drawn from the `top_k` most likely ones, 50 as in the reference; 0 means all.
    pub top_k: usize,
    /// Tokens are drawn from the smallest set of most likely ones whose probabilities sum to `top_p`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Epochs to evaluate, from 1; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<Vec<usize>>,
    /// Number of words whose games the report shows.
    pub sample_games: usize,
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

impl Default for EvaluationSettings {
    fn default() -> Self {
        Self {
            games: 600,
            held_out_games: None,
            self_play_games: 300,
            arena_games: 0,
            seed: 1_000_003,
            temperature: 1.0,
            top_k: Sampling::REFERENCE_TOP_K,
            top_p: None,
            epochs: None,
            sample_games: 6,
        }
    }
}

impl EvaluationSettings {
    /// How tokens are drawn.
    pub fn sampling(&self) -> Sampling {
        sampling(self.temperature, self.top_k, self.top_p)
    }
}

/// `[benchmarks]`: tasks that the base model, the imitation model and the model of each epoch are scored on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BenchmarkSettings {
    /// A file of tasks, or `tiny` for the built-in ones of the small world, which is the default of this table.
    pub tasks: PathBuf,
    /// The folder of the tasks' data; that of their file if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<PathBuf>,
    /// The first rows of each task only; all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Models that are scored on all rows in spite of `limit`: `base`, `last`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub whole: Vec<WholeFor>,
    /// Number format of the weights: `f32`, `bf16`, or `auto`, which is f32 on a CPU.
    #[serde(with = "dtype", skip_serializing_if = "DtypeChoice::is_auto")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_utterances: Option<f64>,
    /// Utterances that repeat an earlier one of their game, among all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated_utterances: Option<f64>,
    /// The attacker's wins among decided games.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attacker_wins: Option<f64>,
    /// The defender's wins among decided games.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defender_wins: Option<f64>,
    /// Games in which the defender's first utterance is a guess, among all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_guesses: Option<f64>,
    /// Ties among all games.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ties: Option<f64>,
}

impl StopRules {
    /// All rules with the names of their settings.
    pub(super) fn all(&self) -> [(&'static str, Option<f64>); 6] {
        [
            ("stop_when.empty_utterances", self.empty_utterances),
            ("stop_when.repeated_utterances", self.repeated_utterances),
            ("stop_when.attacker_wins", self.attacker_wins),
            ("stop_when.defender_wins", self.defender_wins),
            ("stop_when.early_guesses", self.early_guesses),
            ("stop_when.ties", self.ties),
        ]
    }
}

/// `[hardware]`: what `spag run --plan` assumes, as in a plan file of `spag plan`. Nothing else depends on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HardwareSettings {
    /// The kind of GPU: `a100-40`, `a100-80`, `h100`, `h200`, or `cpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// GPUs in all, one rank each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<usize>,
    /// GPUs per host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<usize>,
    /// GiB per GPU, if other than that of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<f64>,
    /// GiB per host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_memory: Option<f64>,
    /// Gbit/s between hosts, per host and in each direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<f64>,
}
