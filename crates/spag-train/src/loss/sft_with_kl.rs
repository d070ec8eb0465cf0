//! Imitation with a KL term (paper, section 3.2; the reference's SFTwithKL).

use super::{Loss, LossInput, LossValue, divide, mean};
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

    fn evaluate(&self, input: &LossInput) -> Result<LossValue> {
        let log_probs = input.log_probs();
        let sft = (SFT, mean(&log_probs.neg()?)?);
        if !self.needs_reference() {
            let each = (input.weights()? * log_probs.neg()?)?;
            let loss = divide(&each.sum_all()?, input.samples().len())?;
            return Ok(LossValue { loss, metrics: vec![sft] });
        }
        let kl = (log_probs.exp()? * (log_probs - input.ref_log_probs()?)?)?;
        let each = (input.weights()? * ((&kl * self.kl)? - log_probs)?)?;
        let loss = divide(&each.sum_all()?, input.samples().len())?;
        Ok(LossValue { loss, metrics: vec![sft, (KL, mean(&kl)?)] })
    }
}
