//! What checkpoints save of the beginning of a run.

use std::collections::BTreeMap;

use spag_model::Tokenizer;
use spag_run::Provenance;

use crate::config::TrainConfig;
use crate::deepspeed::Scheduler;

/// What a run was started with; saved in its checkpoints.
pub(crate) struct Origin<'a> {
    pub(crate) tokenizer: &'a Tokenizer,
    pub(crate) config: &'a TrainConfig,
    /// The schedule of a DeepSpeed file, if it replaces that of the settings.
    pub(crate) scheduler: Option<&'a Scheduler>,
    pub(crate) data_sha256: &'a str,
    pub(crate) samples: usize,
    pub(crate) ranks: usize,
    /// SHA-256 of ℓ_ref by the name of their file.
    pub(crate) reference_sha256: BTreeMap<String, String>,
    /// The record of the model's data, written beside the weights.
    pub(crate) made_from: &'a Provenance,
}

impl Origin<'_> {
    pub(super) fn scheduler_value(&self) -> Option<serde_json::Value> {
        // Numbers and names always serialize.
        self.scheduler.and_then(|scheduler| serde_json::to_value(scheduler).ok())
    }
}
