//! The loss and the gradients of one optimizer step.

use candle_core::Tensor;
use spag_model::model::{Activations, Network};
use spag_model::params::{GradientSink, WeightSource};

use crate::batch::{Batch, BatchSample};
use crate::error::Result;
use crate::log_prob_gap::LogProbGap;
use crate::loss::{Loss, LossInput, LossValue};
use crate::metrics::MetricValues;
use crate::packing::Packing;
use crate::trajectory::Trajectory;

/// A micro-batch of this rank.
#[derive(Clone, Debug)]
pub(crate) struct MicroBatch<'a> {
    pub(crate) trajectories: Vec<&'a Trajectory>,
    /// Its share of the step's mean loss. 0 if it only keeps this rank's collectives in step with ranks that have one
    /// micro-batch more.
    pub(crate) share: f64,
}

/// The loss of one micro-batch.
#[derive(Clone, Debug)]
pub(crate) struct MicroLoss {
    /// Its share of the step's mean loss.
    pub(crate) share: f64,
    pub(crate) loss: f64,
    pub(crate) metrics: MetricValues,
}

/// The passes of one step on this rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passes {
    /// Of each micro-batch with a share.
    pub(crate) losses: Vec<MicroLoss>,
    /// Tokens of their trajectories.
    pub(crate) tokens: u64,
    /// Rows of the passes.
    pub(crate) computed_tokens: u64,
    /// The difference from the log-probabilities at sampling.
    pub(crate) gap: LogProbGap,
    /// Rows whose log-probability or loss is not finite. If there are any, the gradients are incomplete.
    pub(crate) non_finite_rows: Vec<usize>,
}

/// Inputs of a step's passes.
pub(crate) struct Step<'a> {
    pub(crate) network: &'a Network,
    pub(crate) weights: &'a dyn WeightSource,
    pub(crate) gradients: &'a dyn GradientSink,
    /// The same for the last micro-batch.
    pub(crate) last_gradients: &'a dyn GradientSink,
    pub(crate) loss: &'a dyn Loss,
    pub(crate) activations: Activations,
    pub(crate) packing: Packing,
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

/// A micro-batch whose passes are done, until its loss is read.
struct Pending {
    share: f64,
    samples: Vec<BatchSample>,
    /// ℓ of each sample.
    log_probs: Tensor,
    /// The log-probability of every target, and of some of them at sampling; `None` if none is known.
    sampled: Option<(Tensor, Vec<Option<f32>>)>,
    value: LossValue,
}

impl Step<'_> {
    /// Adds the gradients of the micro-batches' losses, each times its share. Reads the losses at the end, so that the host
    /// waits for a device once.
    pub(crate) fn passes(&self, micro_batches: &[MicroBatch<'_>]) -> Result<Passes> {
        let (mut done, mut pending) = (Passes::default(), Vec::new());
        for (number, MicroBatch { trajectories, share }) in micro_batches.iter().enumerate() {
            let batch = Batch::new(trajectories.iter().copied(), self.packing);
            let (packed, targets) = (batch.packed.clone(), batch.targets.clone());
            let forward = self.network.forward(self.weights, packed, targets, self.activations)?;
            let input = LossInput::new(&batch, forward.log_probs())?;
            let value = self.loss.evaluate(&input)?;
            let stop = self.mode == StepMode::StopEarly && !value.loss.to_scalar::<f64>()?.is_finite();
            if !stop {
                let upstream = input.gradient(&batch, &value.loss, *share)?;
                let is_last = number + 1 == micro_batches.len();
                let gradients = if is_last { self.last_gradients } else { self.gradients };
                self.network.backward(self.weights, forward, &upstream, gradients)?;
            }
            if *share > 0.0 {
                let Batch { packed, tokens, samples, sampling_log_probs, .. } = batch;
                done.tokens += tokens as u64;
                done.computed_tokens += packed.len() as u64;
                let any_known = sampling_log_probs.iter().any(Option::is_some);
                let tokens = any_known.then(|| input.token_log_probs()).transpose()?;
                let sampled = tokens.map(|tokens| (tokens, sampling_log_probs));
                let log_probs = input.log_probs().clone();
                pending.push(Pending { share: *share, samples, log_probs, sampled, value: value.detach() });
            }
            if stop {
                break;
            }
        }
        let values: Vec<LossValue> = pending.iter().map(|micro| micro.value.clone()).collect();
        for (micro, (loss, metrics)) in pending.iter().zip(LossValue::read_all(&values)?) {
            done.losses.push(MicroLoss { share: micro.share, loss, metrics });
            if let Some((log_probs, sampled)) = &micro.sampled {
                done.gap.add(log_probs, sampled)?;
            }
            if !loss.is_finite() && done.non_finite_rows.is_empty() {
                done.non_finite_rows = non_finite_rows(&micro.samples, &micro.log_probs.to_vec1()?);
            }
        }
        Ok(done)
    }
}

/// The rows of a micro-batch whose loss is not finite: those whose ℓ is not finite, or all if the loss overflowed although
/// each ℓ is finite.
fn non_finite_rows(samples: &[BatchSample], log_probs: &[f64]) -> Vec<usize> {
    let not_finite = samples.iter().zip(log_probs).filter(|(_, l)| !l.is_finite());
    let rows: Vec<usize> = not_finite.map(|(sample, _)| sample.row).collect();
    if rows.is_empty() { samples.iter().map(|sample| sample.row).collect() } else { rows }
}
