//! Offline policy optimisation (paper, section 3.3; the reference's OfflinePO).

use candle_core::{DType, Tensor};
use spag_rewards::SampleKind;

use super::{Loss, LossInput, LossValue, SampleCounts, sft_part};
use crate::error::Result;
use crate::metrics::Metric;

/// The policy part of the loss.
const POLICY: Metric = Metric::mean("policy");
/// The SFT part before α.
const SFT: Metric = Metric::mean("sft");
/// Mean ℓ − ℓ_ref of game samples.
const KL: Metric = Metric::mean("kl");
const RATIO_MEAN: Metric = Metric::mean("importance_ratio_mean");
const RATIO_MIN: Metric = Metric::min("importance_ratio_min");
const RATIO_MAX: Metric = Metric::max("importance_ratio_max");
/// Share of game samples whose importance ratio is outside the clip range.
const CLIPPED: Metric = Metric::mean("clipped_fraction");

/// Σ_games w·P / #games + α·Σ_sft w·(−ℓ) / #sft, with P = −min(A·ρ, A·clip(ρ, 1−ε, 1+ε)), ρ = e^(ℓ−ℓ_ref) and
/// A = r − β(ℓ−ℓ_ref). A is not detached; a missing kind adds 0.
#[derive(Clone, Copy, Debug)]
pub struct OfflinePo {
    /// β.
    pub kl: f64,
    /// α.
    pub sft: f64,
    /// ε.
    pub clip: f64,
}

impl Loss for OfflinePo {
    fn metrics(&self) -> &'static [Metric] {
        &[POLICY, SFT, KL, RATIO_MEAN, RATIO_MIN, RATIO_MAX, CLIPPED]
    }

    fn needs_reference(&self) -> bool {
        true
    }

    fn divisor(&self, counts: SampleCounts, kind: SampleKind) -> Option<usize> {
        Some(counts.of_kind(kind))
    }

    fn evaluate(&self, input: &LossInput) -> Result<LossValue> {
        let (games, sfts) = (input.of_kind(SampleKind::Game)?, input.of_kind(SampleKind::Sft)?);
        let mut loss = Tensor::zeros((), DType::F64, input.log_probs().device())?;
        let mut metrics = Vec::new();
        if !games.is_empty() {
            let difference = (games.log_probs() - games.ref_log_probs()?)?;
            let ratio = difference.exp()?;
            let advantage = (games.rewards()? - (&difference * self.kl)?)?;
            let plain = (&advantage * &ratio)?;
            let clipped = (&advantage * ratio.clamp(1.0 - self.clip, 1.0 + self.clip)?)?;
            // If both are equal, the gradient is that of the unclipped one.
            let objective = plain.le(&clipped)?.where_cond(&plain, &clipped)?;
            let policy = (games.weights()? * objective.neg()?)?;
            let outside = (&ratio - 1.0)?.abs()?.gt(self.clip)?.to_dtype(DType::F64)?;
            let policy = games.sum(&policy)?;
            loss = (loss + &policy)?;
            metrics.extend([
                games.of_sum(POLICY, &policy)?,
                games.mean(KL, &difference)?,
                games.mean(RATIO_MEAN, &ratio)?,
                RATIO_MIN.of(ratio.min_all()?),
                RATIO_MAX.of(ratio.max_all()?),
                games.mean(CLIPPED, &outside)?,
            ]);
        }
        if let Some((sft, metric)) = sft_part(&sfts, SFT)? {
            loss = (loss + (sft * self.sft)?)?;
            metrics.push(metric);
        }
        Ok(LossValue { loss, metrics })
    }
}
