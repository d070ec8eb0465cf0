//! The loss and the gradients of one optimizer step.

use spag_model::{Activations, GradientSink, Network, WeightSource};

use crate::dataset::Dataset;
use crate::error::Result;
use crate::loss::{Loss, LossInput, LossValue};
use crate::metrics::MetricValues;

/// A micro-batch of this rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MicroBatch<'a> {
    /// Indices of its samples.
    pub(crate) samples: &'a [usize],
    /// Its share of the step's mean loss. 0 if it only keeps this rank's collectives in step with ranks that have one
    /// micro-batch more.
    pub(crate) share: f64,
}

/// The passes of one step on this rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passes {
    /// Loss and metrics of each micro-batch with a share.
    pub(crate) losses: Vec<(f64, MetricValues)>,
    /// Tokens read in them.
    pub(crate) tokens: u64,
    /// Rows whose log-probability or loss is not finite. If there are any, the gradients are incomplete.
    pub(crate) non_finite_rows: Vec<usize>,
}

/// Inputs of a step's passes.
pub(crate) struct Step<'a> {
    pub(crate) network: &'a Network,
    pub(crate) weights: &'a dyn WeightSource,
    pub(crate) gradients: &'a dyn GradientSink,
    pub(crate) data: &'a Dataset,
    pub(crate) loss: &'a dyn Loss,
    pub(crate) activations: Activations,
    pub(crate) mode: StepMode,
}

/// What happens after a micro-batch whose loss is not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepMode {
    /// The step's other passes are left out: for one process on a CPU, where reading a loss waits for no device.
    StopEarly,
    /// All passes run: other ranks take part in their collectives, or a device computes ahead of the host.
    RunAll,
}

impl Step<'_> {
    /// Adds the gradients of the micro-batches' losses, each times its share. Reads the losses at the end, so that the host
    /// waits for a device once.
    pub(crate) fn passes(&self, micro_batches: &[MicroBatch<'_>]) -> Result<Passes> {
        let (mut done, mut values, mut log_probs) = (Passes::default(), Vec::new(), Vec::new());
        for micro in micro_batches {
            let batch = self.data.batch(micro.samples);
            let (packed, targets) = (batch.packed.clone(), batch.targets.clone());
            let forward = self.network.forward(self.weights, packed, targets, self.activations)?;
            let input = LossInput::new(&batch, forward.log_probs())?;
            let value = self.loss.evaluate(&input)?;
            let stop = self.mode == StepMode::StopEarly && !value.loss.to_scalar::<f64>()?.is_finite();
            if !stop {
                let upstream = input.gradient(&batch, &value.loss, micro.share)?;
                self.network.backward(self.weights, forward, &upstream, self.gradients)?;
            }
            if micro.share > 0.0 {
                done.tokens += batch.packed.len() as u64;
                values.push(value.detach());
                log_probs.push((micro.samples, input.log_probs().clone()));
            }
            if stop {
                break;
            }
        }
        done.losses = LossValue::read_all(&values)?;
        if let Some((samples, log_probs)) =
            done.losses.iter().zip(log_probs).find_map(|((loss, _), micro)| (!loss.is_finite()).then_some(micro))
        {
            done.non_finite_rows = self.non_finite_rows(samples, &log_probs.to_vec1()?);
        }
        Ok(done)
    }

    /// The rows of a micro-batch whose loss is not finite: those whose ℓ is not finite, or all if the loss overflowed
    /// although each ℓ is finite.
    fn non_finite_rows(&self, samples: &[usize], log_probs: &[f64]) -> Vec<usize> {
        let all = || self.data.batch(samples).samples.into_iter().map(|sample| sample.row);
        let rows: Vec<usize> = all().zip(log_probs).filter(|(_, l)| !l.is_finite()).map(|(row, _)| row).collect();
        if rows.is_empty() { all().collect() } else { rows }
    }
}
