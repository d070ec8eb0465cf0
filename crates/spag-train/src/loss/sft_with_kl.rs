//! Imitation with a KL term (paper, section 3.2; the reference's SFTwithKL).

use super::{Evaluated, Loss, Parts, Scored, mean};

/// mean of w·(−ℓ + β·e^ℓ·(ℓ − ℓ_ref)); the gradient flows through e^ℓ too.
#[derive(Clone, Copy, Debug)]
pub struct SftWithKl {
    /// β.
    pub kl: f64,
}

impl Loss for SftWithKl {
    fn evaluate(&self, batch: &[Scored]) -> Evaluated {
        let n = batch.len().max(1) as f64;
        let kl = |s: &Scored| s.log_prob.exp() * (s.log_prob - s.ref_log_prob);
        let loss = batch.iter().map(|s| s.weight * (self.kl * kl(s) - s.log_prob)).sum::<f64>() / n;
        let gradient = batch
            .iter()
            // d/dℓ e^ℓ(ℓ − ℓ_ref) = e^ℓ(ℓ − ℓ_ref + 1).
            .map(|s| s.weight / n * (self.kl * s.log_prob.exp() * (s.log_prob - s.ref_log_prob + 1.0) - 1.0))
            .collect();
        let parts =
            Parts { sft: mean(batch.iter().map(|s| -s.log_prob)), kl: mean(batch.iter().map(kl)), ..Parts::default() };
        Evaluated { loss, gradient, parts }
    }
}
