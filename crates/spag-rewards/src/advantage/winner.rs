//! SPAG's credit (Cheng et al. 2024, arXiv 2404.10642) as advantages.

use serde::{Deserialize, Serialize};

use super::{Advantages, Estimator, RewardedGame};
use crate::{CreditConfig, Result, RewardNorm, discounted_rewards};

/// The winner's utterances share a reward of 1 by [`discounted_rewards`]; those of losers, of ties and of games with a broken
/// rule are left out. The rule of [`DecayedWinner`](crate::DecayedWinner) without the weights that balance the seats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Winner {
    /// γ > 0: an utterance's reward is γ times that of the winner's next one.
    pub decay_weight: f64,
    /// The scale of a winner's rewards.
    pub norm: RewardNorm,
}

/// The paper's.
impl Default for Winner {
    fn default() -> Self {
        Self { decay_weight: 0.8, norm: RewardNorm::Sum }
    }
}

impl Winner {
    pub(super) fn check(&self) -> Result<()> {
        CreditConfig { decay_weight: self.decay_weight, ..CreditConfig::default() }.check()
    }
}

impl Estimator for Winner {
    fn advantages(&mut self, games: &[RewardedGame]) -> Result<Advantages> {
        let mut all = Advantages::default();
        for game in games {
            let mut shares = vec![None; game.turns.len()];
            if let Some(winner) = game.winner {
                let own: Vec<usize> = game.turns_of(winner.index()).collect();
                for (at, share) in own.iter().zip(discounted_rewards(own.len(), self.decay_weight, self.norm)) {
                    shares[*at] = Some(share);
                }
            }
            all.push(game, |at, _| shares[at])?;
        }
        Ok(all)
    }
}
