//! `trainer_state/state.json`: where a run is, and what it was told.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use spag_model::WrittenFile;

use super::write::Origin;
use crate::config::TrainConfig;
use crate::position::Position;

/// The version of the folder's layout that is written, and the only one that is read.
pub(crate) const FORMAT: u32 = 1;

/// Settings that a run may go on with changed: they do not touch what it computes.
const FREE: [&str; 8] = [
    "logging_steps",
    "save_strategy",
    "save_steps",
    "save_total_limit",
    "evaluation_strategy",
    "eval_steps",
    "per_device_eval_batch_size",
    "gradient_checkpointing",
];

const ACCUMULATION: &str = "gradient_accumulation_steps";

fn one() -> usize {
    1
}

/// Everything about a run that is not a buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedState {
    /// Version of the layout.
    pub format: u32,
    /// The program that wrote it.
    pub program: String,
    /// How far the run is.
    pub position: Position,
    /// The place in the data that the next step reads from; follows from the step and the settings.
    pub data_order: DataPosition,
    /// Updates of the optimizer: steps without the skipped ones.
    pub optimizer_updates: u64,
    /// The settings, resolved; the seed of the data order is one of them.
    pub config: TrainConfig,
    /// The schedule of a DeepSpeed file, where one took the place of the settings'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Value>,
    /// Digest of the encoded samples.
    pub data_sha256: String,
    /// Number of them.
    pub samples: usize,
    /// Processes that trained together. Any number can go on, if a step has as many micro-batches as before.
    #[serde(default = "one")]
    pub ranks: usize,
    /// Files of the checkpoint, relative to its folder.
    pub files: Vec<WrittenFile>,
}

/// Where in the data a run is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataPosition {
    /// Passes over the data so far.
    pub epoch: f64,
    /// Micro-batches taken since the first step.
    pub micro_batches: usize,
}

impl SavedState {
    /// How the run that wrote this differs from one of this origin; empty where it can go on.
    pub(crate) fn differences(&self, now: &Origin<'_>) -> Vec<String> {
        let mut found = Vec::new();
        let (mut was, mut is) = (settings(&self.config), settings(now.config));
        // What counts is how many micro-batches a step has, whoever takes them.
        let accumulated = [was.remove(ACCUMULATION), is.remove(ACCUMULATION)].map(|steps| steps.unwrap_or_default());
        let [before, after] = [(&accumulated[0], self.ranks), (&accumulated[1], now.ranks)];
        let micro_batches = |(steps, ranks): (&Value, usize)| steps.as_u64().unwrap_or(1).saturating_mul(ranks as u64);
        if micro_batches(before) != micro_batches(after) {
            found.push(format!(
                "--{ACCUMULATION} was {} on {} ranks and is {} on {}: a step has to have as many micro-batches as before",
                before.0, before.1, after.0, after.1
            ));
        }
        for (key, now) in &is {
            let was = was.get(key).unwrap_or(&Value::Null);
            if was != now && !FREE.contains(&key.as_str()) {
                found.push(format!("--{key} was {was} and is {now}"));
            }
        }
        for key in was.keys().filter(|key| !is.contains_key(*key) && !FREE.contains(&key.as_str())) {
            found.push(format!("--{key} was {} and is not set", was[key]));
        }
        if self.scheduler != now.scheduler_value() {
            found.push("the scheduler of the --deepspeed file is another".into());
        }
        if self.samples != now.samples {
            found.push(format!("the training data had {} usable samples and have {}", self.samples, now.samples));
        } else if self.data_sha256 != now.data_sha256 {
            found.push("the training data (or the tokenizer) are others".into());
        }
        found
    }
}

fn settings(config: &TrainConfig) -> serde_json::Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(map)) => map,
        // A struct of plain fields is an object.
        _ => serde_json::Map::new(),
    }
}
