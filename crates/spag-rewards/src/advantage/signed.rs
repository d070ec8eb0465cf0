//! SPAG's decayed credit for both seats: the loser's utterances have what the winner's have, with the sign of its reward.

use serde::{Deserialize, Serialize};

use super::baseline::{EstimatorState, check_decay};
use super::{Advantages, Estimator, RewardedGame};
use crate::{CreditConfig, Result, RewardNorm, discounted_rewards};

/// A seat's utterances share A = R − b by [`discounted_rewards`], with a baseline b for each kind of game and role as
/// [`Rae`](super::Rae) has it. With rewards of 1 and −1 and b = 0, a winner has the credit of [`Winner`](super::Winner), and a
/// loser its negative.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Signed {
    /// Of the baseline: from 0, the last reward, to below 1.
    pub decay: f64,
    /// γ > 0: an utterance's share is γ times that of the seat's next one.
    pub decay_weight: f64,
    /// The scale of a seat's shares.
    pub norm: RewardNorm,
}

impl Default for Signed {
    fn default() -> Self {
        Self { decay: 0.95, decay_weight: 0.8, norm: RewardNorm::Sum }
    }
}

impl Signed {
    pub(super) fn check(&self) -> Result<()> {
        check_decay(self.decay)?;
        CreditConfig { decay_weight: self.decay_weight, ..CreditConfig::default() }.check()
    }
}

/// [`Signed`] with its baselines.
pub(super) struct RunningSigned {
    pub(super) settings: Signed,
    pub(super) state: EstimatorState,
}

impl Estimator for RunningSigned {
    fn advantages(&mut self, games: &[RewardedGame]) -> Result<Advantages> {
        let Signed { decay, decay_weight, norm } = self.settings;
        let mut all = Advantages::default();
        for game in games {
            let mut shares = vec![0.0; game.turns.len()];
            for (seat, advantage) in self.state.compare(game, decay).into_iter().enumerate() {
                let own: Vec<usize> = game.turns_of(seat).collect();
                for (at, share) in own.iter().zip(discounted_rewards(own.len(), decay_weight, norm)) {
                    shares[*at] = advantage * share;
                }
            }
            all.push(game, |at, _| Some(shares[at]))?;
        }
        Ok(all)
    }

    fn state(&self) -> EstimatorState {
        self.state.clone()
    }

    fn restore(&mut self, state: EstimatorState) {
        self.state = state;
    }
}
