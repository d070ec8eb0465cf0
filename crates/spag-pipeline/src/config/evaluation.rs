//! How models are measured: games against the imitation model and each other, benchmarks, and rules that stop a run.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use spag_chat::TemplateKwargs;
use spag_eval::{ChatShots, Task, TaskSource};
use spag_model::dtype::DtypeChoice;
use spag_model::generate::Sampling;
use spag_selfplay::{SamplingSettings, limits};

use super::gpu::Gpu;
use crate::error::Result;

/// GPUs in all, or per host.
const GPUS: RangeInclusive<usize> = 1..=65_536;
/// GiB of a GPU or a host, and Gbit/s between hosts.
const SIZE: RangeInclusive<f64> = 0.001..=1e6;

spag_io::settings! {
    /// `[evaluation]`: games between the models of the run.
    pub table EvaluationSettings {
        /// Games of each model against the imitation model, per seat, on words of the training.
        pub games: usize [limits::GAMES] = 600;
        /// The same on words that were held out; as many as `games` if absent.
        pub held_out_games: Option<usize> [limits::GAMES];
        /// Games of the last model against itself, or 0.
        pub self_play_games: usize [limits::GAMES_OR_NONE] = 300;
        /// Games of every two epochs against each other, per seat, or 0. With them the report rates all models.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub arena_games: usize [limits::GAMES_OR_NONE] = 0;
        /// Seed of the evaluation games, independent of the run's seed.
        pub seed: u64 = 1_000_003;
        /// Epochs to evaluate, from 1; all if absent.
        pub epochs: Option<Vec<usize>>;
        /// Number of words whose games the report shows.
        pub sample_games: usize [limits::GAMES_OR_NONE] = 6;
    } + {
        /// How tokens are drawn; from the 50 most likely ones by default, as in the reference.
        pub sampling: SamplingSettings = SamplingSettings {
            temperature: 1.0, top_k: Some(Sampling::REFERENCE_TOP_K), top_p: None
        };
    }

    /// `[benchmarks]`: tasks that the base model, the imitation model and the model of each epoch are scored on.
    pub table BenchmarkSettings {
        /// A file of tasks, or `tiny` or `tiny-think` for built-in ones of the small world; `tiny` is the default of this table.
        pub tasks: PathBuf = PathBuf::from("tiny");
        /// The folder of the tasks' data; that of their file if absent.
        pub data_dir: Option<PathBuf>;
        /// The first rows of each task only; all if absent.
        pub limit: Option<usize> [1..=usize::MAX];
        /// Models that are scored on all rows in spite of `limit`: `base`, `last`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub whole: Vec<WholeFor>;
        /// Number format of the weights: `f32`, `bf16`, or `auto`, which is f32 on a CPU.
        #[serde(skip_serializing_if = "spag_io::is_default")]
        pub dtype: DtypeChoice;
        /// Ask in chats, with each model's own template, as `spag eval --apply_chat_template`.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub apply_chat_template: bool;
    }

    /// `[stop_when]`: shares of the games or utterances of a round, or of an update of an on-policy run, above which the run stops: a
    /// round before it trains on them, an update once it is recorded. A single round or update is enough. Absent rules stop nothing.
    pub table StopRules {
        /// Empty utterances among all.
        pub empty_utterances: Option<f64> [0.0..=1.0];
        /// Utterances that repeat an earlier one of their game, among all, in games of sentences: moves may be repeated.
        pub repeated_utterances: Option<f64> [0.0..=1.0];
        /// The attacker's wins among decided games.
        pub attacker_wins: Option<f64> [0.0..=1.0];
        /// The defender's wins among decided games.
        pub defender_wins: Option<f64> [0.0..=1.0];
        /// Games in which the defender's first utterance is a guess, among all.
        pub early_guesses: Option<f64> [0.0..=1.0];
        /// Ties among all games.
        pub ties: Option<f64> [0.0..=1.0];
        /// Utterances without reasoning, among all: a model that stops thinking.
        pub empty_reasoning: Option<f64> [0.0..=1.0];
        /// Utterances whose reasoning used up its budget, among all.
        pub forced_reasoning: Option<f64> [0.0..=1.0];
        /// Utterances whose completion ended within reasoning, among all.
        pub unfinished_reasoning: Option<f64> [0.0..=1.0];
        /// Groups of an update whose games all have equal rewards, so that nothing is learned, among all; batches, if a group is one
        /// game. Of updates only.
        pub without_signal: Option<f64> [0.0..=1.0];
        /// A lower limit: nats of `item_information` below which the run stops. Of updates only, and of those whose games have different
        /// first prompts. Needs `online.information_games`.
        pub least_item_information: Option<f64> [0.0..=10.0];
    }

    /// `[hardware]`: what `spag run --plan` assumes. Nothing else depends on it.
    pub table HardwareSettings {
        /// Words of `words.file`, to plan before the file is there.
        pub words: Option<usize> [1..=1_000_000_000];
        /// Rows of `imitation.file`, likewise.
        pub imitation_rows: Option<usize> [1..=1_000_000_000];
        /// Rows of `sft.file`, likewise.
        pub sft_rows: Option<usize> [1..=1_000_000_000];
    } + {
        /// The machines.
        pub machine: MachineSettings;
    }

    /// The machines that are planned for.
    #[derive(Copy, clap::Args)]
    pub flags MachineSettings {
        /// The kind of GPU: a100-40, a100-80, h100 or h200. In the file of a run cpu, too, which is its default; otherwise --gpu_memory
        /// chooses it
        #[arg(value_name = "KIND", hide_possible_values = true)]
        pub gpu: Option<Gpu>;
        /// GPUs in all, one rank each, at most 65536 [default: 1]
        #[arg(value_name = "N")]
        pub gpus: Option<usize> [GPUS];
        /// GPUs per host [default: 8]
        #[arg(value_name = "N")]
        pub gpus_per_node: Option<usize> [GPUS];
        /// GiB per GPU, if other than that of its kind
        #[arg(value_name = "GIB")]
        pub gpu_memory: Option<f64> [SIZE];
        /// GiB per host; not checked by default
        #[arg(value_name = "GIB")]
        pub host_memory: Option<f64> [SIZE];
        /// Gbit/s between hosts, per host and in each direction [default: 200]
        #[arg(value_name = "GBIT")]
        pub network: Option<f64> [SIZE];
    }
}

impl BenchmarkSettings {
    /// The tasks for a model with the first `limit` rows of each, and the chat template that their contexts are written with.
    ///
    /// # Errors
    /// Tasks or data that cannot be read, or a model without a template if one is asked for.
    pub(crate) fn load_tasks(
        &self,
        limit: Option<usize>,
        (model, kwargs): (&Path, &TemplateKwargs),
    ) -> Result<(Arc<[Task]>, Option<String>)> {
        let source = TaskSource::new(&self.tasks, self.data_dir.as_deref(), limit);
        if !self.apply_chat_template {
            return Ok((source.load()?, None));
        }
        let (tasks, template) = source.load_as_chats(model, kwargs, ChatShots::default())?;
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
