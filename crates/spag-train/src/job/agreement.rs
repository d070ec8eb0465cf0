//! Whether all ranks of a run were told the same.

use serde_json::Value;
use spag_dist::{ProcessGroup, agree};
use spag_model::{LlamaConfig, OpenDevice};

use super::TrainJob;
use crate::dataset::Dataset;
use crate::error::Result;

/// Compares everything that a step's result, or the order of what ranks do together, depends on.
///
/// # Errors
/// [`spag_dist::Error::Disagree`] on every rank, with the first rank and the first thing that differs.
pub(super) fn same_on_all(
    job: &TrainJob,
    group: &dyn ProcessGroup,
    device: &OpenDevice,
    architecture: &LlamaConfig,
    dataset: &Dataset,
    eval: Option<&Dataset>,
) -> Result<()> {
    if group.size() == 1 {
        return Ok(());
    }
    let value = |value: serde_json::Result<Value>| value.unwrap_or_default();
    let mut facts: Vec<(String, String)> = Vec::new();
    // Settings first: what is made from them would differ too, and say less.
    if let Value::Object(settings) = value(serde_json::to_value(&job.config)) {
        facts.extend(settings.iter().map(|(flag, value)| (format!("--{flag}"), value.to_string())));
    }
    let kind = if device.device().is_cpu() { "the CPU" } else { "a GPU" };
    facts.extend([
        ("--zero_stage".into(), job.zero_stage.map(u8::from).unwrap_or_default().to_string()),
        ("the device".into(), kind.into()),
        ("the model's config.json".into(), value(serde_json::to_value(architecture)).to_string()),
        ("the digest of the training data or the tokenizer".into(), dataset.content_digest()),
        ("the digest of the evaluation data".into(), eval.map(Dataset::content_digest).unwrap_or_default()),
    ]);
    let facts: Vec<(&str, String)> = facts.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    Ok(agree(group, &facts)?)
}
