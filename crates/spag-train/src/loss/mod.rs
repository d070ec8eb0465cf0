//! Losses. One loss a file; [`build`] chooses that of a training on samples and [`build_on_policy`] that of an on-policy run, by the
//! names in `choices.rs`. [`Learner::with_loss`](crate::Learner::with_loss) takes any.
//!
//! A [`Loss`] computes its value with tensor operations from the log-probabilities of a micro-batch ([`LossInput`]);
//! automatic differentiation gives the gradient.

mod choices;
mod input;
mod offline_po;
mod policy_gradient;
mod sft;
mod sft_with_kl;
#[cfg(test)]
mod tests;

use candle_core::Tensor;
use spag_rewards::SampleKind;

#[cfg(doc)]
use crate::batch::BatchSample;
use crate::config::TrainConfig;
use crate::error::Result;
use crate::metrics::{Metric, MetricTensor, PassMetric};

pub use choices::{KlPlace, PolicyLength, PolicyLoss, PolicyLossSettings, TrainMethod};
pub use input::LossInput;
pub use offline_po::OfflinePo;
pub use policy_gradient::{Length, PolicyGradient, Ratio};
pub use sft::Sft;
pub use sft_with_kl::SftWithKl;

/// A loss over the samples of a micro-batch.
pub trait Loss: Send + Sync {
    /// Every metric that [`Loss::evaluate`] may report, in the order in which they are written.
    fn metrics(&self) -> &'static [Metric];

    /// Whether it reads ℓ_ref.
    fn needs_reference(&self) -> bool {
        false
    }

    /// What the own loss of a sample of `kind` is divided by in a micro-batch with so many samples, if the loss is the sum of each sample's
    /// own loss over its [divisor](BatchSample::divisor). The samples of a step may then be computed in any passes, on any rank.
    ///
    /// `None`, the default, is for all other losses: a step averages the losses of its micro-batches, whose samples are computed together.
    fn divisor(&self, _counts: SampleCounts, _kind: SampleKind) -> Option<usize> {
        None
    }

    /// The loss of samples that are computed together. Does not wait for the device.
    ///
    /// # Errors
    /// [`Error::NoReference`](crate::Error::NoReference), or a failure of the device.
    fn evaluate(&self, input: &LossInput) -> Result<LossValue>;
}

/// Numbers of a micro-batch's samples and labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleCounts {
    /// Samples of games.
    pub games: usize,
    /// Samples of general text.
    pub sfts: usize,
    /// Labels that are predicted.
    pub predicted: usize,
}

impl SampleCounts {
    /// Samples of a kind.
    pub fn of_kind(&self, kind: SampleKind) -> usize {
        match kind {
            SampleKind::Game => self.games,
            SampleKind::Sft => self.sfts,
        }
    }
}

/// From the kind of each sample and its predicted labels.
impl FromIterator<(SampleKind, usize)> for SampleCounts {
    fn from_iter<I: IntoIterator<Item = (SampleKind, usize)>>(samples: I) -> Self {
        samples.into_iter().fold(Self::default(), |Self { games, sfts, predicted }, (kind, labels)| Self {
            games: games + usize::from(kind == SampleKind::Game),
            sfts: sfts + usize::from(kind == SampleKind::Sft),
            predicted: predicted + labels,
        })
    }
}

/// The value of a loss on samples that are computed together.
#[derive(Clone, Debug)]
pub struct LossValue {
    /// The loss, a scalar, f64.
    pub loss: Tensor,
    /// Metrics of [`Loss::metrics`].
    pub metrics: Vec<MetricTensor>,
}

impl LossValue {
    /// The same without the graph that gradients are computed from.
    pub(crate) fn detach(&self) -> Self {
        let metrics = self.metrics.iter().map(|one| MetricTensor { value: one.value.detach(), ..*one }).collect();
        Self { loss: self.loss.detach(), metrics }
    }

    /// The loss and metrics of several passes. Waits for the device once.
    ///
    /// # Errors
    /// A failure of the device.
    pub(crate) fn read_all(all: &[Self]) -> Result<Vec<(f64, Vec<PassMetric>)>> {
        let tensors = |one: &Self| -> Vec<Tensor> {
            std::iter::once(&one.loss).chain(one.metrics.iter().map(|one| &one.value)).cloned().collect()
        };
        let numbers: Vec<Tensor> = all.iter().flat_map(tensors).collect();
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let mut numbers = Tensor::stack(&numbers, 0)?.to_vec1::<f64>()?.into_iter();
        // The iterator has a number for each loss and metric.
        let mut next = || numbers.next().unwrap_or(f64::NAN);
        let mut of_pass = |one: &Self| {
            let loss = next();
            let read = |&MetricTensor { metric, weight, .. }: &_| PassMetric { metric, value: next(), weight };
            (loss, one.metrics.iter().map(read).collect())
        };
        Ok(all.iter().map(&mut of_pass).collect())
    }
}

/// The loss of a configuration.
pub fn build(config: &TrainConfig) -> Box<dyn Loss> {
    match config.method {
        TrainMethod::Sft => Box::new(Sft),
        TrainMethod::SftWithKl => Box::new(SftWithKl { kl: config.lm_kl_coeff }),
        TrainMethod::OfflinePo => {
            Box::new(OfflinePo { kl: config.lm_kl_coeff, sft: config.lm_sft_coeff, clip: config.clip_range })
        }
    }
}

/// The loss of an on-policy run, for utterances of at most `max_new_tokens`.
pub fn build_on_policy(settings: &PolicyLossSettings, max_new_tokens: usize) -> Box<dyn Loss> {
    let length = match settings.length {
        PolicyLength::MaxNewTokens => Length::Constant(max_new_tokens),
        PolicyLength::Own => Length::Own,
    };
    let kl = match settings.kl_in {
        KlPlace::Loss => settings.kl_coeff,
        KlPlace::Reward | KlPlace::ZeroSum => 0.0,
    };
    let gradient = |ratio| Box::new(PolicyGradient { ratio, length, kl, sft: settings.sft_coeff });
    match settings.loss {
        PolicyLoss::Reinforce => gradient(Ratio::None),
        PolicyLoss::Ppo => gradient(Ratio::Clip { low: settings.clip_low, high: settings.clip_high }),
        PolicyLoss::Truncated => gradient(Ratio::Truncated { cap: settings.ratio_cap }),
        PolicyLoss::Masked => gradient(Ratio::Masked { cap: settings.ratio_cap }),
    }
}

/// w·(−ℓ) of samples of general text, as a part of the loss and as a metric; `None` without any.
fn sft_part(sfts: &LossInput, metric: Metric) -> Result<Option<(Tensor, MetricTensor)>> {
    if sfts.is_empty() {
        return Ok(None);
    }
    let each = (sfts.weights()? * sfts.log_probs().neg()?)?;
    let sum = sfts.sum(&each)?;
    let metric = sfts.of_sum(metric, &sum)?;
    Ok(Some((sum, metric)))
}

/// The mean over tokens, all of which count alike.
fn token_mean(metric: Metric, each: &Tensor) -> Result<MetricTensor> {
    Ok(MetricTensor { weight: each.elem_count() as f64, ..metric.of(mean(each)?) })
}

/// The mean of all elements.
fn mean(x: &Tensor) -> candle_core::Result<Tensor> {
    // candle's own division by a number multiplies by the reciprocal, which rounds differently.
    x.sum_all()? / Tensor::new(x.elem_count().max(1) as f64, x.device())?
}
