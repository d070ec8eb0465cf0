//! Offline policy optimisation (paper, section 3.3; the reference's OfflinePO).

use spag_rewards::SampleKind;

use super::{Evaluated, Loss, Parts, Scored, mean};

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
}
