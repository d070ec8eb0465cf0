//! Forward passes of the reference model over a whole data set.

use std::ops::Range;

use spag_model::Llama;

use crate::batch::Batch;
use crate::encode::Encoded;
use crate::error::{Error, Result};
use spag_io::Progress;

/// Tokens of one forward pass.
const TOKENS: usize = 4096;

/// ℓ_ref of every sample, in order.
///
/// # Errors
/// A sample that the model cannot read, or whose log-probability is not finite.
pub fn reference_log_probs(model: &Llama, samples: &[Encoded], progress: &mut dyn Progress) -> Result<Vec<f64>> {
    let mut all = Vec::with_capacity(samples.len());
    progress.begin(WHAT, samples.len() as u64);
    for range in passes(samples, 0) {
        all.extend(pass(model, &samples[range])?);
        progress.advance(all.len() as u64, "");
    }
    progress.end();
    Ok(all)
}

/// What the progress bar says.
pub(super) const WHAT: &str = "reference log-probabilities";

/// The passes over the samples from `start` on.
///
/// Which samples share a pass depends on where the first one begins, so `start` has to be where a pass ended.
pub(super) fn passes(samples: &[Encoded], start: usize) -> Vec<Range<usize>> {
    let (mut passes, mut start) = (Vec::new(), start);
    while start < samples.len() {
        let (mut end, mut tokens) = (start, 0);
        while end < samples.len() && (end == start || tokens + samples[end].ids.len() <= TOKENS) {
            tokens += samples[end].ids.len();
            end += 1;
        }
        passes.push(start..end);
        start = end;
    }
    passes
}

/// ℓ_ref of the samples of one pass.
pub(super) fn pass(model: &Llama, samples: &[Encoded]) -> Result<Vec<f64>> {
    let samples: Vec<&Encoded> = samples.iter().collect();
    let batch = Batch::new(samples.iter().copied());
    let means = batch.means(&model.log_probs(&batch.packed, &batch.targets)?, &samples);
    match samples.iter().zip(&means).find(|(_, mean)| !mean.is_finite()) {
        Some((sample, value)) => Err(Error::Reference { row: sample.row, value: *value }),
        None => Ok(means),
    }
}
