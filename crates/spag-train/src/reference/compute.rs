//! Forward passes of the reference model over a whole data set.

use std::ops::Range;

use spag_model::Llama;

use crate::batch::Batch;
use crate::encode::Encoded;
use crate::error::{Error, Result};
use crate::progress::Progress;

/// Tokens of one forward pass.
const TOKENS: usize = 4096;

/// ℓ_ref of every sample, in order.
///
/// # Errors
/// A sample that the model cannot read, or whose log-probability is not finite.
pub fn reference_log_probs(model: &Llama, samples: &[Encoded], progress: &mut dyn Progress) -> Result<Vec<f64>> {
    let mut all = Vec::with_capacity(samples.len());
    from(model, samples, 0, progress, |_, part| {
        all.extend_from_slice(part);
        Ok(())
    })?;
    Ok(all)
}

/// ℓ_ref of the samples from `start` on, handed to `keep` a forward pass at a time.
///
/// Which samples share a pass depends on where the first one begins, so `start` has to be where a pass ended.
pub(super) fn from(
    model: &Llama,
    samples: &[Encoded],
    mut start: usize,
    progress: &mut dyn Progress,
    mut keep: impl FnMut(Range<usize>, &[f64]) -> Result<()>,
) -> Result<()> {
    progress.resume("reference log-probabilities", samples.len() as u64, start as u64);
    while start < samples.len() {
        let (mut end, mut tokens) = (start, 0);
        while end < samples.len() && (end == start || tokens + samples[end].ids.len() <= TOKENS) {
            tokens += samples[end].ids.len();
            end += 1;
        }
        let part: Vec<&Encoded> = samples[start..end].iter().collect();
        let batch = Batch::new(part.iter().copied());
        let means = batch.means(&model.log_probs(&batch.packed, &batch.targets)?, &part);
        if let Some((sample, value)) = part.iter().zip(&means).find(|(_, mean)| !mean.is_finite()) {
            return Err(Error::Reference { row: sample.row, value: *value });
        }
        keep(start..end, &means)?;
        start = end;
        progress.advance(start as u64, "");
    }
    progress.end();
    Ok(())
}
