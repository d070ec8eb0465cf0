//! `trainer_state/state.json`: progress and settings of a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use spag_model::checkpoint::WrittenFile;

use super::origin::Origin;
use crate::config::TrainConfig;
use crate::position::Position;

/// The version of the folder's layout. No other version is read.
pub(crate) const FORMAT: u32 = 1;

/// Settings that may change on resume, since they do not change any result.
pub(crate) const CHANGEABLE: [&str; 10] = [
    "logging_steps",
    "save_strategy",
    "save_steps",
    "save_total_limit",
    "max_shard_size",
    "evaluation_strategy",
    "eval_steps",
    "per_device_eval_batch_size",
    "gradient_checkpointing",
    "keep_activations",
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
    /// The progress of the run.
    pub position: Position,
    /// Where the next step reads; follows from the step and the settings.
    pub(crate) data_order: DataPosition,
    /// Updates of the optimizer: steps minus skipped ones.
    pub(crate) optimizer_updates: u64,
    /// The resolved settings, including the seed of the data order.
    pub config: TrainConfig,
    /// The schedule of a DeepSpeed file, if it replaced that of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Value>,
    /// Digest of the encoded samples.
    pub(crate) data_sha256: String,
    /// Number of samples.
    pub samples: usize,
    /// Ranks that trained. Any number can resume if a step has as many micro-batches as before.
    #[serde(default = "one")]
    pub ranks: usize,
    /// SHA-256 of ℓ_ref by the file that keeps them in the output folder; empty for a loss without a reference model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) reference_sha256: BTreeMap<String, String>,
    /// Files of the checkpoint, relative to its folder.
    pub files: Vec<WrittenFile>,
}

/// The position of a run in the data.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DataPosition {
    /// Passes over the data so far.
    pub(crate) epoch: f64,
    /// Micro-batches read since the first step.
    pub(crate) micro_batches: usize,
}

impl SavedState {
    /// Checks that the counts agree and that the settings are in range.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.config.check().map_err(|error| error.to_string())?;
        let Position { step, skipped_steps, skipped_in_a_row, .. } = self.position;
        let updates = step.checked_sub(skipped_steps).map(|updates| updates as u64);
        if updates != Some(self.optimizer_updates) || skipped_in_a_row > skipped_steps {
            return Err(format!(
                "{} updates, {step} steps and {skipped_steps} skipped steps do not agree; was it altered?",
                self.optimizer_updates
            ));
        }
        Ok(())
    }

    /// How the run that wrote this differs from the one of `now`; empty if it can resume.
    pub(crate) fn differences(&self, now: &Origin<'_>) -> Vec<String> {
        let mut found = Vec::new();
        let (mut was, mut is) = (settings(&self.config), settings(now.config));
        // The product matters: micro-batches a step, over all ranks.
        let accumulated = [was.remove(ACCUMULATION), is.remove(ACCUMULATION)].map(|steps| steps.unwrap_or_default());
        let [before, after] = [(&accumulated[0], self.ranks), (&accumulated[1], now.ranks)];
        let micro_batches = |(steps, ranks): (&Value, usize)| steps.as_u64().unwrap_or(1).saturating_mul(ranks as u64);
        if micro_batches(before) != micro_batches(after) {
            found.push(format!(
                "--{ACCUMULATION} was {} on {} ranks and is {} on {}: a step must have as many micro-batches as before",
                before.0, before.1, after.0, after.1
            ));
        }
        for (key, now) in &is {
            let was = was.get(key).unwrap_or(&Value::Null);
            if was != now && !CHANGEABLE.contains(&key.as_str()) {
                found.push(format!("--{key} was {was} and is {now}"));
            }
        }
        for key in was.keys().filter(|key| !is.contains_key(*key) && !CHANGEABLE.contains(&key.as_str())) {
            found.push(format!("--{key} was {} and is not set", was[key]));
        }
        if self.scheduler != now.scheduler_value() {
            found.push("the scheduler of the --deepspeed file has changed".into());
        }
        if self.samples != now.samples {
            found.push(format!("the training data had {} usable samples and have {}", self.samples, now.samples));
        } else if self.data_sha256 != now.data_sha256 {
            found.push("the training data or the tokenizer have changed".into());
        }
        found
    }
}

fn settings(config: &TrainConfig) -> serde_json::Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(map)) => map,
        // A struct always serializes to an object.
        _ => serde_json::Map::new(),
    }
}
