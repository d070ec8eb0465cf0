//! The loss and the gradients of one optimizer step.

use spag_model::{Activations, FlatBuffers, Llama, kernels};

use crate::batch::Batch;
use crate::dataset::Dataset;
use crate::encode::Encoded;
use crate::error::Result;
use crate::loss::{EvaluatedTensors, Loss, Parts, Scored, ScoredTensors};

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
///
/// On a device that runs kernels the host does not wait before the last of them has been handed over.
pub(crate) fn passes(
    model: &Llama,
    data: TrainData<'_>,
    loss: &dyn Loss,
    keep: Activations,
    micro_batches: &[Vec<usize>],
    gradients: &FlatBuffers,
) -> Result<Passes> {
    gradients.set_zero()?;
    let step = Step { model, data, loss, keep, gradients, scale: 1.0 / micro_batches.len().max(1) as f64 };
    match kernels::of(model.parameters().device())? {
        Some(_) => step.on_device(micro_batches),
        None => step.on_host(micro_batches),
    }
}

struct Step<'a> {
    model: &'a Llama,
    data: TrainData<'a>,
    loss: &'a dyn Loss,
    keep: Activations,
    gradients: &'a FlatBuffers,
    /// Of each micro-batch in the mean.
    scale: f64,
}

impl Step<'_> {
    fn on_host(&self, micro_batches: &[Vec<usize>]) -> Result<Passes> {
        let (mut done, mut parts) = (Passes::default(), Vec::with_capacity(micro_batches.len()));
        for micro in micro_batches {
            let samples = self.data.select(micro);
            let batch = Batch::new(samples.iter().copied());
            done.tokens += batch.packed.len() as u64;
            let forward = self.model.forward(batch.packed.clone(), batch.targets.clone(), self.keep)?;
            let means = batch.means(&forward.read_log_probs()?, &samples);
            let mut value = self.loss.evaluate(&self.data.scored(micro, &samples, &means));
            done.loss += value.loss * self.scale;
            parts.push(value.parts);
            if !value.loss.is_finite() {
                done.unsound_rows = unsound(&samples, &means);
                break;
            }
            value.gradient.iter_mut().for_each(|g| *g *= self.scale);
            self.model.backward_from(forward, &batch.spread(&value.gradient, &samples), self.gradients)?;
        }
        done.parts = Parts::together(&parts);
        Ok(done)
    }

    fn on_device(&self, micro_batches: &[Vec<usize>]) -> Result<Passes> {
        let mut done = Passes::default();
        let (mut values, mut all_means) = (Vec::new(), Vec::new());
        for micro in micro_batches {
            let samples = self.data.select(micro);
            let batch = Batch::new(samples.iter().copied());
            done.tokens += batch.packed.len() as u64;
            let forward = self.model.forward(batch.packed.clone(), batch.targets.clone(), self.keep)?;
            let means = batch.means_on_device(forward.log_probs(), &samples)?;
            // ℓ is the device's; the rest is known here.
            let known = self.data.scored(micro, &samples, &vec![0.0; samples.len()]);
            let value = self.loss.evaluate_tensors(&ScoredTensors::new(means.clone(), &known)?)?;
            let upstream = batch.spread_on_device(&(&value.gradient * self.scale)?, &samples)?;
            self.model.backward(forward, &upstream, self.gradients)?;
            values.push(value);
            all_means.push(means);
        }
        let fetched = EvaluatedTensors::fetch(&values)?;
        for ((loss, _), (means, micro)) in fetched.iter().zip(all_means.iter().zip(micro_batches)) {
            done.loss += loss * self.scale;
            if !loss.is_finite() && done.unsound_rows.is_empty() {
                done.unsound_rows = unsound(&self.data.select(micro), &means.to_vec1()?);
            }
        }
        done.parts = Parts::together(&fetched.iter().map(|(_, parts)| *parts).collect::<Vec<_>>());
        Ok(done)
    }
}

/// The rows of a micro-batch whose loss is not finite: those whose ℓ is not, or all, where each is finite and their
/// loss is not: an importance ratio has overflowed.
fn unsound(samples: &[&Encoded], means: &[f64]) -> Vec<usize> {
    let of = |keep: &dyn Fn(f64) -> bool| -> Vec<usize> {
        samples.iter().zip(means).filter(|(_, mean)| keep(**mean)).map(|(sample, _)| sample.row).collect()
    };
    let rows = of(&|mean| !mean.is_finite());
    match rows.is_empty() {
        true => of(&|_| true),
        false => rows,
    }
}
