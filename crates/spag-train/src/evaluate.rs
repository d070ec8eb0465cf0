//! The loss on evaluation data.

use candle_core::{Device, Tensor};
use spag_dist::gather_numbers;
use spag_io::Progress;

use crate::dataset::Dataset;
use crate::error::Result;
use crate::learner::Learner;
use crate::loss::LossInput;

/// The mean over all samples of their micro-batches' losses, without gradients: transformers' `eval_loss`.
///
/// # Errors
/// A sample that the model cannot read, or a lost rank.
pub(crate) fn evaluate(
    learner: &Learner,
    data: &Dataset,
    batch_size: usize,
    progress: &mut dyn Progress,
) -> Result<f64> {
    let count = data.samples().len();
    progress.begin("evaluation", count as u64);
    let all: Vec<usize> = (0..count).collect();
    let micro_batches: Vec<&[usize]> = all.chunks(batch_size.max(1)).collect();
    let (ranks, rank) = (learner.group().size(), learner.group().rank());
    let (rounds, mut own) = (micro_batches.len().div_ceil(ranks), Vec::new());
    for round in 0..rounds {
        // A rank without a micro-batch runs the first one: the others need its shards of the parameters.
        let micro = micro_batches.get(round * ranks + rank).or(micro_batches.first()).copied().unwrap_or_default();
        let batch = data.batch(micro, learner.packing()).with_divisors(learner.loss());
        let log_probs = learner.network().log_probs(&*learner.weights(), &batch.packed, &batch.targets)?;
        let input = LossInput::new(&batch, &Tensor::new(log_probs, &Device::Cpu)?)?;
        own.push(learner.loss().evaluate(&input)?.loss.to_scalar::<f64>()?);
        progress.advance(((round + 1) * ranks * batch_size).min(count) as u64, "");
    }
    let losses = gather_numbers(learner.group(), &own)?;
    progress.end();
    let weighted = micro_batches.iter().enumerate().map(|(m, micro)| losses[m % ranks][m / ranks] * micro.len() as f64);
    Ok(weighted.sum::<f64>() / count as f64)
}
