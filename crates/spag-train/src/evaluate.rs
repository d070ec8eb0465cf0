//! The loss on data that is not trained on.

use spag_model::Llama;

use crate::batch::Batch;
use crate::error::Result;
use crate::loss::Loss;
use crate::progress::Progress;
use crate::step::TrainData;

/// The mean over all samples of their micro-batches' losses, without gradients: transformers' `eval_loss`.
///
/// # Errors
/// A sample that the model cannot read.
pub fn evaluate(
    model: &Llama,
    data: TrainData<'_>,
    loss: &dyn Loss,
    batch_size: usize,
    progress: &mut dyn Progress,
) -> Result<f64> {
    let count = data.dataset.samples.len();
    progress.begin("evaluation", count as u64);
    let (mut sum, all) = (0.0, (0..count).collect::<Vec<_>>());
    for (number, micro) in all.chunks(batch_size.max(1)).enumerate() {
        let samples = data.select(micro);
        let batch = Batch::new(samples.iter().copied());
        let means = batch.means(&model.log_probs(&batch.packed, &batch.targets)?, &samples);
        sum += loss.evaluate(&data.scored(micro, &samples, &means)).loss * micro.len() as f64;
        progress.advance((number * batch_size + micro.len()) as u64, "");
    }
    progress.end();
    Ok(sum / count as f64)
}
