//! Imitation with a KL term (paper, section 3.2; the reference's SFTwithKL).

use candle_core::Result;

use super::{Evaluated, EvaluatedTensors, Loss, Parts, Scored, ScoredTensors, mean};

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

    fn evaluate_tensors(&self, batch: &ScoredTensors) -> Result<EvaluatedTensors> {
        let n = batch.len().max(1) as f64;
        let (probability, difference) = (batch.log_prob.exp()?, batch.difference()?);
        let kl = (&probability * &difference)?;
        let loss = ((&batch.weight * ((&kl * self.kl)? - &batch.log_prob)?)?.sum_all()? / n)?;
        let slope = (((probability * (difference + 1.0)?)? * self.kl)? - 1.0)?;
        let gradient = ((&batch.weight * slope)? / n)?;
        let parts = match batch.len() {
            0 => [const { None }; 7],
            _ => [None, Some(batch.log_prob.mean_all()?.neg()?), Some(kl.mean_all()?), None, None, None, None],
        };
        EvaluatedTensors::new(gradient, loss, parts)
    }
}
