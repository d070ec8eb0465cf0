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

use crate::config::TrainConfig;
use crate::error::Result;
use crate::metrics::{Metric, MetricValues};

pub use choices::{KlPlace, PolicyLength, PolicyLoss, PolicyLossSettings, TrainMethod};
pub use input::LossInput;
pub use offline_po::OfflinePo;
pub use policy_gradient::{Length, PolicyGradient, Ratio};
pub use sft::Sft;
pub use sft_with_kl::SftWithKl;

/// A loss over one micro-batch.
pub trait Loss: Send + Sync {
    /// Every metric that [`Loss::evaluate`] may report, in the order in which they are written.
    fn metrics(&self) -> &'static [Metric];

    /// Whether it reads ℓ_ref.
    fn needs_reference(&self) -> bool {
        false
    }

    /// The loss of a micro-batch. Does not wait for the device.
    ///
    /// # Errors
    /// [`Error::NoReference`](crate::Error::NoReference), or a failure of the device.
    fn evaluate(&self, input: &LossInput) -> Result<LossValue>;
}

/// The value of a loss on one micro-batch.
#[derive(Clone, Debug)]
pub struct LossValue {
    /// The loss, a scalar, f64.
    pub loss: Tensor,
    /// Metrics of [`Loss::metrics`], scalars, f64.
    pub metrics: Vec<(Metric, Tensor)>,
}

impl LossValue {
    /// The same without the graph that gradients are computed from.
    pub(crate) fn detach(&self) -> Self {
        let metrics = self.metrics.iter().map(|(metric, value)| (*metric, value.detach())).collect();
        Self { loss: self.loss.detach(), metrics }
    }

    /// The loss and metrics of several micro-batches. Waits for the device once.
    ///
    /// # Errors
    /// A failure of the device.
    pub(crate) fn read_all(all: &[Self]) -> Result<Vec<(f64, MetricValues)>> {
        let tensors = |one: &Self| -> Vec<Tensor> {
            std::iter::once(&one.loss).chain(one.metrics.iter().map(|(_, value)| value)).cloned().collect()
        };
        let numbers: Vec<Tensor> = all.iter().flat_map(tensors).collect();
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let mut numbers = Tensor::stack(&numbers, 0)?.to_vec1::<f64>()?.into_iter();
        // The iterator has a number for each loss and metric.
        let mut next = || numbers.next().unwrap_or(f64::NAN);
        Ok(all.iter().map(|one| (next(), one.metrics.iter().map(|(metric, _)| (*metric, next())).collect())).collect())
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

/// The mean of w·(−ℓ) over samples of general text; `None` without any.
fn sft_part(sfts: &LossInput) -> Result<Option<Tensor>> {
    if sfts.is_empty() {
        return Ok(None);
    }
    let each = (sfts.weights()? * sfts.log_probs().neg()?)?;
    Ok(Some(divide(&each, sfts.samples().len())?.sum_all()?))
}

/// `x` / `divisor`. candle's own division by a number multiplies by the reciprocal, which rounds differently.
fn divide(x: &Tensor, divisor: usize) -> candle_core::Result<Tensor> {
    x / Tensor::full(divisor.max(1) as f64, x.shape(), x.device())?
}

/// The mean of all elements.
fn mean(x: &Tensor) -> candle_core::Result<Tensor> {
    divide(&x.sum_all()?, x.elem_count())
}
