//! The loss and the gradients of one optimizer step.

use candle_core::Tensor;
use spag_model::model::{Activations, Network};
use spag_model::params::{GradientSink, WeightSource};

use crate::batch::{Batch, BatchSample};
use crate::error::Result;
use crate::log_prob_gap::LogProbGap;
use crate::loss::{Loss, LossInput, LossValue};
use crate::metrics::PassMetric;
use crate::packing::Packing;
use crate::passes::{Pass, StepSample};
use crate::trajectory::{Span, Trajectory};

/// What one pass of this rank computed.
#[derive(Clone, Debug, Default)]
pub(crate) struct PassResult {
    /// Its part of the step's loss.
    pub(crate) loss: f64,
    pub(crate) metrics: Vec<PassMetric>,
    /// Its rows.
    pub(crate) computed_tokens: u64,
}

/// The passes of one step on this rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passes {
    /// Of each pass that is not empty, with its number.
    pub(crate) results: Vec<(usize, PassResult)>,
    /// Tokens of their trajectories.
    pub(crate) tokens: u64,
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
    /// The same for the last pass.
    pub(crate) last_gradients: &'a dyn GradientSink,
    pub(crate) loss: &'a dyn Loss,
    pub(crate) activations: Activations,
    pub(crate) packing: Packing,
    pub(crate) mode: StepMode,
}

/// What happens after a pass whose loss is not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepMode {
    /// The step's other passes are left out: for one process on a CPU, where reading a loss waits for no device.
    StopEarly,
    /// All passes run: other ranks take part in their collectives, or a device computes ahead of the host.
    RunAll,
}

/// A pass that is done, until its loss is read.
struct Pending {
    number: usize,
    share: f64,
    computed_tokens: u64,
    samples: Vec<BatchSample>,
    /// ℓ of each sample.
    log_probs: Tensor,
    /// The log-probability of every target, and of some of them at sampling; `None` if none is known.
    sampled: Option<(Tensor, Vec<Option<f32>>)>,
    value: LossValue,
}

impl Step<'_> {
    /// Adds the gradients of the passes' losses, each times its share. Reads the losses at the end, so that the host
    /// waits for a device once.
    pub(crate) fn passes(&self, passes: &[Pass<'_>]) -> Result<Passes> {
        let (mut done, mut pending) = (Passes::default(), Vec::new());
        let filler = filler();
        for (number, Pass { samples, share }) in passes.iter().enumerate() {
            let batch = match samples.is_empty() {
                true => Batch::of(&[StepSample { trajectory: &filler, divisor: 1.0 }], self.packing),
                false => Batch::of(samples, self.packing),
            };
            let (packed, targets) = (batch.packed.clone(), batch.targets.clone());
            let forward = self.network.forward(self.weights, packed, targets, self.activations)?;
            let input = LossInput::new(&batch, forward.log_probs())?;
            let value = self.loss.evaluate(&input)?;
            let stop = self.mode == StepMode::StopEarly && !value.loss.to_scalar::<f64>()?.is_finite();
            if !stop {
                let upstream = input.gradient(&batch, &value.loss, *share)?;
                let is_last = number + 1 == passes.len();
                let gradients = if is_last { self.last_gradients } else { self.gradients };
                self.network.backward(self.weights, forward, &upstream, gradients)?;
            }
            if !samples.is_empty() {
                let Batch { packed, tokens, samples, sampling_log_probs, .. } = batch;
                done.tokens += tokens as u64;
                let computed_tokens = packed.len() as u64;
                let any_known = sampling_log_probs.iter().any(Option::is_some);
                let tokens = any_known.then(|| input.token_log_probs()).transpose()?;
                let sampled = tokens.map(|tokens| (tokens, sampling_log_probs));
                let log_probs = input.log_probs().clone();
                let (share, value) = (*share, value.detach());
                pending.push(Pending { number, share, computed_tokens, samples, log_probs, sampled, value });
            }
            if stop {
                break;
            }
        }
        let values: Vec<LossValue> = pending.iter().map(|pass| pass.value.clone()).collect();
        for (pass, (loss, metrics)) in pending.iter().zip(LossValue::read_all(&values)?) {
            let result = PassResult { loss: loss * pass.share, metrics, computed_tokens: pass.computed_tokens };
            done.results.push((pass.number, result));
            if let Some((log_probs, sampled)) = &pass.sampled {
                done.gap.add(log_probs, sampled)?;
            }
            if !loss.is_finite() && done.non_finite_rows.is_empty() {
                done.non_finite_rows = non_finite_rows(&pass.samples, &pass.log_probs.to_vec1()?);
            }
        }
        Ok(done)
    }
}

/// What a rank computes while others have one pass more. It adds nothing to the loss.
fn filler() -> Trajectory {
    let span = Span { ref_log_prob: Some(0.0), ref_token_log_probs: Some(vec![0.0]), ..Span::new(1..2, 0.0) };
    Trajectory { row: 0, ids: vec![0; 2], spans: vec![span] }
}

/// The rows of a pass whose loss is not finite: those whose ℓ is not finite, or all if the loss overflowed although
/// each ℓ is finite.
fn non_finite_rows(samples: &[BatchSample], log_probs: &[f64]) -> Vec<usize> {
    let not_finite = samples.iter().zip(log_probs).filter(|(_, l)| !l.is_finite());
    let rows: Vec<usize> = not_finite.map(|(sample, _)| sample.row).collect();
    if rows.is_empty() { samples.iter().map(|sample| sample.row).collect() } else { rows }
}
