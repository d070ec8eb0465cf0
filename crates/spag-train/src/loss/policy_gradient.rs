//! Policy gradients on tokens, for utterances of the learner's own games.

use candle_core::{DType, Tensor};
use spag_rewards::SampleKind;

use super::{Loss, LossInput, LossValue, SampleCounts, sft_part, token_mean};
use crate::batch::BatchSample;
use crate::error::Result;
use crate::metrics::Metric;

/// The policy part of the loss.
const POLICY: Metric = Metric::mean("policy");
/// The mean over tokens of k3, an estimate of KL(policy ‖ reference), before β.
const KL: Metric = Metric::mean("kl");
const RATIO_MEAN: Metric = Metric::mean("importance_ratio_mean");
const RATIO_MIN: Metric = Metric::min("importance_ratio_min");
const RATIO_MAX: Metric = Metric::max("importance_ratio_max");
/// Share of tokens whose importance ratio is outside the range that [`Ratio`] allows.
const CLIPPED: Metric = Metric::mean("clipped_fraction");
/// Mean −ln π of the sampled tokens: an estimate of the entropy.
const ENTROPY: Metric = Metric::mean("entropy");
/// The SFT part before α.
const SFT: Metric = Metric::mean("sft");

/// mean over samples of w/n · Σ_t (L_t + β·k3_t), where L_t is the loss of [`Ratio`] with the sample's reward as advantage A,
/// n the [`Length`], and k3 = e^(ln π_ref − ln π) − (ln π_ref − ln π) − 1 (Schulman 2020, "Approximating KL divergence"; the
/// penalty of GRPO); plus α · Σ_sft w·(−ℓ) / #sft, as in [`OfflinePo`](super::OfflinePo). A missing kind adds 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyGradient {
    /// What importance ratios do.
    pub ratio: Ratio,
    /// What the sum over a sample's tokens is divided by.
    pub length: Length,
    /// β. With 0 no reference model is needed.
    pub kl: f64,
    /// α.
    pub sft: f64,
}

/// The loss L of a token with advantage A, probability π and importance ratio ρ = π/π_sampling. Where ρ is 1, all have the
/// gradient of [`Ratio::None`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ratio {
    /// REINFORCE: −A·ln π.
    None,
    /// PPO (Schulman et al. 2017): −min(A·ρ, A·clip(ρ, 1 − low, 1 + high)).
    Clip {
        /// From 0 to 1.
        low: f64,
        /// At least 0. DAPO's "clip higher" has more than `low`.
        high: f64,
    },
    /// Truncated importance sampling (IMPALA, Espeholt et al. 2018): −min(ρ, cap)·A·ln π; no gradient through ρ.
    Truncated {
        /// At least 1.
        cap: f64,
    },
    /// Masked importance sampling (IcePop, 2025): −ρ·A·ln π; no gradient through ρ. 0 if ρ is outside \[1/cap, cap\].
    Masked {
        /// At least 1.
        cap: f64,
    },
}

/// What the sum over a sample's tokens is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A constant, which `max_new_tokens` is made for: every token counts the same (Dr. GRPO, Liu et al. 2025).
    Constant(usize),
    /// The sample's labels: every sample counts the same.
    Own,
}

impl PolicyGradient {
    /// Factor of a sample's tokens in its own loss.
    fn share(&self, sample: &BatchSample) -> f64 {
        let length = match self.length {
            Length::Constant(length) => length,
            Length::Own => sample.labels,
        };
        sample.weight / length.max(1) as f64
    }
}

impl Ratio {
    /// L of every token, and 1 for each whose ratio is outside the range, from A, ln π, and ln π − ln π_sampling; `[M]`.
    fn losses(self, advantages: &Tensor, log_probs: &Tensor, ratio: &Tensor) -> Result<(Tensor, Option<Tensor>)> {
        let (outside, objective) = match self {
            Self::None => (None, (advantages * log_probs)?),
            Self::Clip { low, high } => {
                let within = ratio.clamp(1.0 - low, 1.0 + high)?;
                let (plain, clipped) = ((advantages * ratio)?, (advantages * &within)?);
                // If both are equal, the gradient is that of the unclipped one.
                (Some(ratio.ne(&within)?), plain.le(&clipped)?.where_cond(&plain, &clipped)?)
            }
            Self::Truncated { cap } => {
                let factor = ratio.detach().clamp(0.0, cap)?;
                (Some(ratio.gt(cap)?), ((advantages * factor)? * log_probs)?)
            }
            Self::Masked { cap } => {
                let ratio = ratio.detach();
                let outside = ratio.ne(&ratio.clamp(1.0 / cap, cap)?)?;
                let factor = outside.where_cond(&ratio.zeros_like()?, &ratio)?;
                (Some(outside), ((advantages * factor)? * log_probs)?)
            }
        };
        let outside = outside.map(|outside| outside.to_dtype(DType::F64)).transpose()?;
        Ok((objective.neg()?, outside))
    }
}

impl Loss for PolicyGradient {
    fn metrics(&self) -> &'static [Metric] {
        &[POLICY, KL, RATIO_MEAN, RATIO_MIN, RATIO_MAX, CLIPPED, ENTROPY, SFT]
    }

    fn needs_reference(&self) -> bool {
        self.kl > 0.0
    }

    fn divisor(&self, counts: SampleCounts, kind: SampleKind) -> Option<usize> {
        Some(counts.of_kind(kind))
    }

    fn evaluate(&self, input: &LossInput) -> Result<LossValue> {
        let (games, sfts) = (input.of_kind(SampleKind::Game)?, input.of_kind(SampleKind::Sft)?);
        let mut value = self.of_games(&games)?;
        if let Some((sft, metric)) = sft_part(&sfts, SFT)? {
            value.loss = (value.loss + (sft * self.sft)?)?;
            value.metrics.push(metric);
        }
        Ok(value)
    }
}

impl PolicyGradient {
    fn of_games(&self, input: &LossInput) -> Result<LossValue> {
        let log_probs = input.token_log_probs()?;
        if log_probs.elem_count() == 0 {
            let loss = Tensor::zeros((), DType::F64, log_probs.device())?;
            return Ok(LossValue { loss, metrics: Vec::new() });
        }
        let ratio = (&log_probs - input.sampling_log_probs()?)?.exp()?;
        let share = input.per_token(|sample| self.share(sample))?;
        let divisors = input.per_token(|sample| sample.divisor)?;
        let over_samples = |each: Tensor| ((&share * each)? / &divisors)?.sum_all();
        let (losses, outside) = self.ratio.losses(&input.per_token(|sample| sample.reward)?, &log_probs, &ratio)?;
        let policy = over_samples(losses)?;
        let mut loss = policy.clone();
        let mut metrics = vec![
            token_mean(RATIO_MEAN, &ratio)?,
            RATIO_MIN.of(ratio.min_all()?),
            RATIO_MAX.of(ratio.max_all()?),
            token_mean(ENTROPY, &log_probs.neg()?)?,
            input.of_sum(POLICY, &policy)?,
        ];
        if self.needs_reference() {
            let difference = (input.ref_token_log_probs()? - &log_probs)?;
            let k3 = ((difference.exp()? - difference)? - 1.0)?;
            metrics.push(token_mean(KL, &k3)?);
            loss = (loss + (over_samples(k3)? * self.kl)?)?;
        }
        if let Some(outside) = outside {
            metrics.push(token_mean(CLIPPED, &outside)?);
        }
        Ok(LossValue { loss, metrics })
    }
}
