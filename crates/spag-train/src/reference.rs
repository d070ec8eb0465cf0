//! ℓ_ref: the mean log-probability of every sample under the frozen reference model, computed once.

use spag_model::Llama;

use crate::batch::Batch;
use crate::encode::Encoded;
use crate::error::Result;
use crate::progress::Progress;

/// Tokens of one forward pass.
const TOKENS: usize = 4096;

/// ℓ_ref of every sample, in order.
///
/// # Errors
/// A sample that the model cannot read.
pub fn reference_log_probs(model: &Llama, samples: &[Encoded], progress: &mut dyn Progress) -> Result<Vec<f64>> {
    progress.begin("reference log-probabilities", samples.len() as u64);
    let mut all = Vec::with_capacity(samples.len());
    let mut start = 0;
    while start < samples.len() {
        let (mut end, mut tokens) = (start, 0);
        while end < samples.len() && (end == start || tokens + samples[end].ids.len() <= TOKENS) {
            tokens += samples[end].ids.len();
            end += 1;
        }
        let part: Vec<&Encoded> = samples[start..end].iter().collect();
        let batch = Batch::new(part.iter().copied());
        let log_probs = model.log_probs(&batch.packed, &batch.targets)?;
        all.extend(batch.means(&log_probs, &part));
        start = end;
        progress.advance(start as u64, "");
    }
    progress.end();
    Ok(all)
}
