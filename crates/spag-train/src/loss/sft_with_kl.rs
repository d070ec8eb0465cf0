//! Imitation with a KL term (paper, section 3.2; the reference's SFTwithKL).

use spag_rewards::SampleKind;

use super::{Loss, LossInput, LossValue, SampleCounts};
use crate::error::Result;
use crate::metrics::Metric;

/// Mean negative log-probability.
const SFT: Metric = Metric::mean("sft");
/// Mean e^ℓ·(ℓ − ℓ_ref).
const KL: Metric = Metric::mean("kl");

/// mean of w·(−ℓ + β·e^ℓ·(ℓ − ℓ_ref)); the gradient flows through e^ℓ too. If β is 0, ℓ_ref is not read.
#[derive(Clone, Copy, Debug)]
pub struct SftWithKl {
    /// β.
    pub kl: f64,
}

impl Loss for SftWithKl {
    fn metrics(&self) -> &'static [Metric] {
        &[SFT, KL]
    }

    fn needs_reference(&self) -> bool {
        self.kl != 0.0
    }

    fn divisor(&self, counts: SampleCounts, _: SampleKind) -> Option<usize> {
        Some(counts.games + counts.sfts)
    }

    fn evaluate(&self, input: &LossInput) -> Result<LossValue> {
        let log_probs = input.log_probs();
        let sft = input.mean(SFT, &log_probs.neg()?)?;
        if !self.needs_reference() {
            let each = (input.weights()? * log_probs.neg()?)?;
            return Ok(LossValue { loss: input.sum(&each)?, metrics: vec![sft] });
        }
        let kl = (log_probs.exp()? * (log_probs - input.ref_log_probs()?)?)?;
        let each = (input.weights()? * ((&kl * self.kl)? - log_probs)?)?;
        Ok(LossValue { loss: input.sum(&each)?, metrics: vec![sft, input.mean(KL, &kl)?] })
    }
}
