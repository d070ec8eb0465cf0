//! The loss on data that is not trained on.

use spag_dist::{ProcessGroup, gather_numbers};
use spag_model::{Network, WeightSource};

use crate::batch::Batch;
use crate::error::Result;
use crate::loss::Loss;
use crate::step::TrainData;
use spag_io::Progress;

/// The model that is asked, and the ranks that ask it together.
pub struct Asked<'a> {
    /// Its passes.
    pub network: &'a Network,
    /// Its parameters.
    pub weights: &'a dyn WeightSource,
    /// The ranks; each takes its share of the data.
    pub group: &'a dyn ProcessGroup,
}

/// The mean over all samples of their micro-batches' losses, without gradients: transformers' `eval_loss`.
///
/// # Errors
/// A sample that the model cannot read, or a rank that is lost.
pub fn evaluate(
    asked: &Asked<'_>,
    data: TrainData<'_>,
    loss: &dyn Loss,
    batch_size: usize,
    progress: &mut dyn Progress,
) -> Result<f64> {
    let count = data.dataset.samples.len();
    progress.begin("evaluation", count as u64);
    let all: Vec<usize> = (0..count).collect();
    let micro_batches: Vec<&[usize]> = all.chunks(batch_size.max(1)).collect();
    let (ranks, rank) = (asked.group.size(), asked.group.rank());
    let (rounds, mut own) = (micro_batches.len().div_ceil(ranks), Vec::new());
    for round in 0..rounds {
        // A rank without one takes part all the same, for others need its parts of the parameters.
        let micro = micro_batches.get(round * ranks + rank).or(micro_batches.first()).copied().unwrap_or_default();
        let samples = data.select(micro);
        let batch = Batch::new(samples.iter().copied());
        let log_probs = asked.network.log_probs(asked.weights, &batch.packed, &batch.targets)?;
        let means = batch.means(&log_probs, &samples);
        own.push(loss.evaluate(&data.scored(micro, &samples, &means)).loss);
        progress.advance(((round + 1) * ranks * batch_size).min(count) as u64, "");
    }
    let losses = gather_numbers(asked.group, &own)?;
    progress.end();
    let weighted = micro_batches.iter().enumerate().map(|(m, micro)| losses[m % ranks][m / ranks] * micro.len() as f64);
    Ok(weighted.sum::<f64>() / count as f64)
}
