//! The loss and the gradients of one optimizer step.

use candle_core::Tensor;
use spag_model::{Activations, GradientSink, Network, WeightSource, kernels};

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

/// A micro-batch of this rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MicroBatch<'a> {
    /// Its samples.
    pub(crate) samples: &'a [usize],
    /// How much it counts: its share of the step's mean loss, or nothing, where it only keeps this rank in step with
    /// others that have one more.
    pub(crate) share: f64,
}

/// What the passes of one step gave, on this rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passes {
    /// The loss of each micro-batch that counts, and its parts.
    pub(crate) losses: Vec<(f64, Parts)>,
    /// Tokens read in them.
    pub(crate) tokens: u64,
    /// Rows whose log-probability or loss is not finite; the gradients are of no use then.
    pub(crate) unsound_rows: Vec<usize>,
}

/// What a step's passes compute with.
pub(crate) struct Step<'a> {
    pub(crate) network: &'a Network,
    pub(crate) weights: &'a dyn WeightSource,
    pub(crate) gradients: &'a dyn GradientSink,
    pub(crate) data: TrainData<'a>,
    pub(crate) loss: &'a dyn Loss,
    pub(crate) keep: Activations,
    /// Whether other ranks wait for this one's passes.
    pub(crate) company: Company,
}

/// Who takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// This process alone: once a loss is not finite, nothing more is computed.
    Alone,
    /// Several, all of which take as many passes.
    Together,
}

impl Step<'_> {
    /// Adds the gradients of the micro-batches' losses, each times its share.
    ///
    /// On a device that runs kernels the host does not wait before the last of them has been handed over.
    pub(crate) fn passes(&self, micro_batches: &[MicroBatch<'_>]) -> Result<Passes> {
        match kernels::of(self.weights.device())? {
            Some(_) => self.on_device(micro_batches),
            None => self.on_host(micro_batches),
        }
    }

    fn on_host(&self, micro_batches: &[MicroBatch<'_>]) -> Result<Passes> {
        let mut done = Passes::default();
        for micro in micro_batches {
            let samples = self.data.select(micro.samples);
            let batch = Batch::new(samples.iter().copied());
            let forward = self.network.forward(self.weights, batch.packed.clone(), batch.targets.clone(), self.keep)?;
            let means = batch.means(&forward.read_log_probs()?, &samples);
            let mut value = self.loss.evaluate(&self.data.scored(micro.samples, &samples, &means));
            if micro.share > 0.0 {
                done.tokens += batch.packed.len() as u64;
                done.losses.push((value.loss, value.parts));
            }
            if !value.loss.is_finite() && done.unsound_rows.is_empty() {
                done.unsound_rows = unsound(&samples, &means);
            }
            if !value.loss.is_finite() && self.company == Company::Alone {
                break;
            }
            value.gradient.iter_mut().for_each(|g| *g *= micro.share);
            let upstream = batch.spread(&value.gradient, &samples);
            let upstream = Tensor::from_slice(&upstream, upstream.len(), self.weights.device())?;
            self.network.backward(self.weights, forward, &upstream, self.gradients)?;
        }
        Ok(done)
    }

    fn on_device(&self, micro_batches: &[MicroBatch<'_>]) -> Result<Passes> {
        let mut done = Passes::default();
        let (mut values, mut all_means) = (Vec::new(), Vec::new());
        for micro in micro_batches {
            let samples = self.data.select(micro.samples);
            let batch = Batch::new(samples.iter().copied());
            let forward = self.network.forward(self.weights, batch.packed.clone(), batch.targets.clone(), self.keep)?;
            let means = batch.means_on_device(forward.log_probs(), &samples)?;
            // ℓ is the device's; the rest is known here.
            let known = self.data.scored(micro.samples, &samples, &vec![0.0; samples.len()]);
            let value = self.loss.evaluate_tensors(&ScoredTensors::new(means.clone(), &known)?)?;
            let upstream = batch.spread_on_device(&(&value.gradient * micro.share)?, &samples)?;
            self.network.backward(self.weights, forward, &upstream, self.gradients)?;
            if micro.share > 0.0 {
                done.tokens += batch.packed.len() as u64;
                values.push(value);
                all_means.push((means, micro.samples));
            }
        }
        done.losses = EvaluatedTensors::fetch(&values)?;
        for ((loss, _), (means, samples)) in done.losses.iter().zip(all_means) {
            if !loss.is_finite() && done.unsound_rows.is_empty() {
                done.unsound_rows = unsound(&self.data.select(samples), &means.to_vec1()?);
            }
        }
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
