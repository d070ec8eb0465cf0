//! Offline policy optimisation (paper, section 3.3; the reference's OfflinePO).

use candle_core::{DType, Result};
use spag_rewards::SampleKind;

use super::{Evaluated, EvaluatedTensors, Loss, Parts, Scored, ScoredTensors, mean};

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

impl OfflinePo {
    /// P and dP/dℓ.
    fn policy(&self, s: &Scored) -> (f64, f64) {
        let difference = s.log_prob - s.ref_log_prob;
        let ratio = difference.exp();
        let advantage = s.reward - self.kl * difference;
        let clipped = ratio.clamp(1.0 - self.clip, 1.0 + self.clip);
        let (plain, limited) = (advantage * ratio, advantage * clipped);
        if plain <= limited {
            // Also where the ratio is inside the range and both are equal.
            return (-plain, -(advantage * ratio - self.kl * ratio));
        }
        (-limited, self.kl * clipped)
    }

    fn clips(&self, s: &Scored) -> bool {
        ((s.log_prob - s.ref_log_prob).exp() - 1.0).abs() > self.clip
    }
}

impl Loss for OfflinePo {
    fn evaluate(&self, batch: &[Scored]) -> Evaluated {
        let is_sft = |s: &&Scored| s.kind == SampleKind::Sft;
        let sft_rows = batch.iter().filter(is_sft).count();
        let (sft_n, game_n) = (sft_rows.max(1) as f64, (batch.len() - sft_rows).max(1) as f64);
        let (mut policy, mut sft) = (0.0, 0.0);
        let mut gradient = Vec::with_capacity(batch.len());
        for s in batch {
            match s.kind {
                SampleKind::Sft => {
                    sft += s.weight * -s.log_prob / sft_n;
                    gradient.push(-self.sft * s.weight / sft_n);
                }
                SampleKind::Game => {
                    let (value, slope) = self.policy(s);
                    policy += s.weight * value / game_n;
                    gradient.push(s.weight * slope / game_n);
                }
            }
        }
        let games = || batch.iter().filter(|s| !is_sft(s));
        let ratios = || games().map(|s| (s.log_prob - s.ref_log_prob).exp());
        let parts = Parts {
            policy: (sft_rows < batch.len()).then_some(policy),
            sft: (sft_rows > 0).then_some(sft),
            kl: mean(games().map(|s| s.log_prob - s.ref_log_prob)),
            importance_ratio_mean: mean(ratios()),
            importance_ratio_min: ratios().reduce(f64::min),
            importance_ratio_max: ratios().reduce(f64::max),
            clipped_fraction: mean(games().map(|s| f64::from(u8::from(self.clips(s))))),
        };
        Evaluated { loss: policy + self.sft * sft, gradient, parts }
    }

    fn evaluate_tensors(&self, batch: &ScoredTensors) -> Result<EvaluatedTensors> {
        let difference = batch.difference()?;
        let ratio = difference.exp()?;
        let advantage = (&batch.reward - (&difference * self.kl)?)?;
        let clipped = ratio.clamp(1.0 - self.clip, 1.0 + self.clip)?;
        let (plain, limited) = ((&advantage * &ratio)?, (&advantage * &clipped)?);
        let unlimited = plain.le(&limited)?;
        let value = unlimited.where_cond(&plain, &limited)?.neg()?;
        let slope = unlimited.where_cond(&((&ratio * self.kl)? - &plain)?, &(&clipped * self.kl)?)?;
        let (sft_n, game_n) = (batch.sfts.max(1) as f64, batch.games.max(1) as f64);
        // The weight of each game, and of each SFT row, in the means; zero for the other kind.
        let games = ((&batch.weight * &batch.game)? / game_n)?;
        let sfts = ((&batch.weight * batch.game.affine(-1.0, 1.0)?)? / sft_n)?;
        let policy = (&games * value)?.sum_all()?;
        let sft = (&sfts * &batch.log_prob)?.sum_all()?.neg()?;
        let gradient = ((&games * slope)? - (&sfts * self.sft)?)?;
        let loss = (&policy + (&sft * self.sft)?)?;
        let of_games = |x: &candle_core::Tensor| (x * &batch.game)?.sum_all()? / game_n;
        let sft = (batch.sfts > 0).then_some(sft);
        if batch.games == 0 {
            return EvaluatedTensors::new(gradient, loss, [None, sft, None, None, None, None, None]);
        }
        // SFT rows count neither as the least nor as the largest.
        let is_game = batch.game.ge(0.5)?;
        let others = |x: f64| batch.game.affine(0.0, x)?.to_dtype(DType::F64);
        let outside = (&ratio - 1.0)?.abs()?.gt(self.clip)?.to_dtype(DType::F64)?;
        let parts = [
            Some(policy),
            sft,
            Some(of_games(&difference)?),
            Some(of_games(&ratio)?),
            Some(is_game.where_cond(&ratio, &others(f64::INFINITY)?)?.min_all()?),
            Some(is_game.where_cond(&ratio, &others(f64::NEG_INFINITY)?)?.max_all()?),
            Some(of_games(&outside)?),
        ];
        EvaluatedTensors::new(gradient, loss, parts)
    }
}
