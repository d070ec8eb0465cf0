//! Notes on what a run leaves out: tokens beyond the limit, and terms of the loss without a coefficient.

use spag_rewards::SampleKind;

use crate::config::{TrainConfig, TrainMethod};
use crate::dataset::{CutSamples, Dataset};

/// The notes, a line each, without `note: `.
pub(super) fn notes(config: &TrainConfig, dataset: &Dataset) -> Vec<String> {
    let mut notes = Vec::new();
    let CutSamples { count, longest } = dataset.cut();
    if count > 0 {
        let (samples, limit) = (dataset.samples().len(), config.max_length);
        notes.push(format!(
            "{count} of {samples} samples have more than --max_length {limit} tokens (the longest {longest}) and lost their beginning"
        ));
    }
    let method = config.method;
    if method != TrainMethod::Sft && config.lm_kl_coeff == 0.0 {
        notes.push(format!("--lm_kl_coeff is 0: {method} has no KL term"));
    }
    let is_sft = |sample: &&crate::Trajectory| sample.spans.iter().any(|span| span.kind == SampleKind::Sft);
    let sft = dataset.samples().iter().filter(is_sft).count();
    if method == TrainMethod::OfflinePo && config.lm_sft_coeff == 0.0 && sft > 0 {
        notes.push(format!("--lm_sft_coeff is 0: {sft} samples of type sft have no share in the loss"));
    }
    notes
}
