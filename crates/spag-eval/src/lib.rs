//! Evaluates checkpoints on benchmarks: multiple choice, likelihoods and generated answers, scored as
//! lm-evaluation-harness scores them. No HTTP, no training.
#![doc = include_str!("../README.md")]

mod error;

// ── Tasks ──
mod answer_config;
mod answer_text;
mod config;
mod context;
mod few_shot;
mod filter;
mod number_words;
mod python_random;
mod rows;
mod selection;
mod shuffle;
mod source;
mod task;
mod task_file;
mod template;
mod tiny;

// ── Asking a model ──
mod encode;
mod evaluation;
mod reasoning;
mod record;
mod scoring;

// ── Results ──
mod compared;
mod metric;
mod paired;
mod pooled;
mod report;
mod results;
mod scored_row;

pub use answer_config::{ExactMatchConfig, FilterConfig, Filters};
pub use compared::{ComparedModel, ComparedRun, ComparedTask, Comparison};
pub use config::{FewShotConfig, Listed, ShotOrder, ShuffleConfig, TaskConfig};
pub use context::ChatShots;
pub use error::{Error, Result};
pub use evaluation::{AskSettings, Evaluation, OpenModel};
pub use metric::{Metric, Value};
pub use paired::PairedDifference;
pub use reasoning::AskReasoning;
pub use report::{render_table, scores_document, scores_parts};
pub use results::{MetricScore, ModelResults, ModelScores, TaskScore};
pub use selection::{MissingData, MissingTask};
pub use source::TaskSource;
pub use task::Task;
pub use tiny::is_built_in;
