//! The loss and the gradients of one optimizer step.

use spag_model::{Activations, FlatBuffers, Llama};

use crate::batch::Batch;
use crate::dataset::Dataset;
use crate::encode::Encoded;
use crate::error::Result;
use crate::loss::{Loss, Parts, Scored};

/// Samples with their log-probabilities under the reference model.
#[derive(Clone, Copy, Debug)]
pub struct TrainData<'a> {
    /// The samples.
    pub dataset: &'a Dataset,
    /// ℓ_ref of each sample; ignored by methods that have no reference.
    pub ref_log_probs: &'a [f64],
}

impl<'a> TrainData<'a> {
    /// The samples of a micro-batch.
    pub(crate) fn select(&self, indices: &[usize]) -> Vec<&'a Encoded> {
        indices.iter().filter_map(|i| self.dataset.samples.get(*i)).collect()
    }

    /// What a loss sees of them.
    pub(crate) fn scored(&self, indices: &[usize], samples: &[&Encoded], means: &[f64]) -> Vec<Scored> {
        let of = |i: &usize| self.ref_log_probs.get(*i).copied().unwrap_or(0.0);
        let rows = indices.iter().zip(samples).zip(means);
        rows.map(|((i, sample), log_prob)| Scored {
            log_prob: *log_prob,
            ref_log_prob: of(i),
            reward: sample.reward,
            weight: sample.weight,
            labels: sample.labels(),
            predicted: sample.predicted(),
            kind: sample.kind,
        })
        .collect()
    }
}

/// What the passes of one step gave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passes {
    /// The mean of the micro-batches' losses.
    pub(crate) loss: f64,
    pub(crate) parts: Parts,
    /// Tokens read.
    pub(crate) tokens: u64,
    /// Rows whose log-probability or loss is not finite; the gradients are of no use then.
    pub(crate) unsound_rows: Vec<usize>,
}

/// Sets `gradients` to those of the mean loss of `micro_batches`.
pub(crate) fn passes(
    model: &Llama,
    data: TrainData<'_>,
    loss: &dyn Loss,
    keep: Activations,
    micro_batches: &[Vec<usize>],
    gradients: &FlatBuffers,
) -> Result<Passes> {
    gradients.set_zero()?;
    let scale = 1.0 / micro_batches.len().max(1) as f64;
    let (mut done, mut parts) = (Passes::default(), Vec::with_capacity(micro_batches.len()));
    for micro in micro_batches {
        let samples = data.select(micro);
        let batch = Batch::new(samples.iter().copied());
        done.tokens += batch.packed.len() as u64;
        let forward = model.forward(batch.packed.clone(), batch.targets.clone(), keep)?;
        let means = batch.means(&forward.read_log_probs()?, &samples);
        let mut value = loss.evaluate(&data.scored(micro, &samples, &means));
        done.loss += value.loss * scale;
        parts.push(value.parts);
        if !value.loss.is_finite() {
            let unsound = samples.iter().zip(&means).filter(|(_, mean)| !mean.is_finite());
            done.unsound_rows = unsound.map(|(sample, _)| sample.row).collect();
            if done.unsound_rows.is_empty() {
                // Each is finite and their loss is not: an importance ratio has overflowed.
                done.unsound_rows = samples.iter().map(|sample| sample.row).collect();
            }
            break;
        }
        value.gradient.iter_mut().for_each(|g| *g *= scale);
        model.backward_from(forward, &batch.spread(&value.gradient, &samples), gradients)?;
    }
    done.parts = Parts::together(&parts);
    Ok(done)
}
