//! The paper's rule: the winner's utterances share a reward of 1, discounted towards the start of the game.

use spag_game::{EpisodeView, SEATS, Tally, Verdict};

use super::Credit;
use super::winner::winner_utterances;
use crate::RewardNorm;

/// The rule `decayed_winner`, the paper's. Utterances up to the deciding one count; a game with a broken rule has no samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecayedWinner {
    /// γ > 0: an utterance's reward is γ times that of the winner's next one.
    pub decay_weight: f64,
    /// The scale of a winner's rewards.
    pub norm: RewardNorm,
}

impl Credit for DecayedWinner {
    fn has_samples(&self, verdict: &Verdict) -> bool {
        verdict.rewarded_winner().is_some()
    }

    fn rewards(&self, episode: &EpisodeView<'_>, verdict: &Verdict) -> Vec<(usize, f64)> {
        let utterances = winner_utterances(episode, verdict);
        let rewards = discounted_rewards(utterances.len(), self.decay_weight, self.norm);
        utterances.into_iter().zip(rewards).collect()
    }

    /// Weights that give both seats the same total: N / (2·N_seat), with N games with a rewarded winner, of which a seat won
    /// N_seat; 0 for a seat that won none.
    fn weights(&self, games: &Tally) -> [f64; SEATS] {
        balancing_weights(games.labels().seats.map(|seat| games.rewarded_wins(seat)))
    }
}

fn balancing_weights(wins: [usize; SEATS]) -> [f64; SEATS] {
    let decided: usize = wins.iter().sum();
    wins.map(|won| if won == 0 { 0.0 } else { decided as f64 / (SEATS * won) as f64 })
}

/// The rewards of a winner's n utterances: (1/γ)^k / Σ_j (1/γ)^j for the k-th, with γ = `decay_weight`; n times as much
/// with [`RewardNorm::Mean`].
///
/// ```
/// use spag_rewards::{RewardNorm, discounted_rewards};
/// let rewards = discounted_rewards(2, 0.8, RewardNorm::Sum);
/// assert_eq!(rewards, [0.4444444444444444, 0.5555555555555556]);
/// assert_eq!(discounted_rewards(2, 0.8, RewardNorm::Mean), [2.0 * rewards[0], 2.0 * rewards[1]]);
/// ```
pub fn discounted_rewards(utterances: usize, decay_weight: f64, norm: RewardNorm) -> Vec<f64> {
    // Multiplied in the reference's order, so that the values agree to the last bit.
    let growth = 1.0 / decay_weight;
    let mut rewards: Vec<f64> = std::iter::successors(Some(growth), |r| Some(r * growth)).take(utterances).collect();
    let mut total: f64 = rewards.iter().sum();
    if !(total.is_finite() && total > 0.0) {
        // Thousands of growing rewards overflow f64. Relative to the largest, the last, the smallest underflow to 0.
        rewards = (0..utterances).rev().map(|after| decay_weight.powf(after as f64)).collect();
        total = rewards.iter().sum();
    }
    let scale = match norm {
        RewardNorm::Sum => 1.0,
        RewardNorm::Mean => utterances as f64,
    };
    for reward in &mut rewards {
        *reward = scale * *reward / total;
    }
    rewards
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn weights_are_zero_without_games() {
        assert_eq!(balancing_weights([0, 0]), [0.0, 0.0]);
    }

    proptest! {
        #[test]
        fn weights_give_each_seat_half_of_the_games(first in 0usize..5000, second in 0usize..5000) {
            let (wins, half) = ([first, second], (first + second) as f64 / 2.0);
            for (weight, won) in balancing_weights(wins).into_iter().zip(wins) {
                let (total, wanted) = (weight * won as f64, if won == 0 { 0.0 } else { half });
                prop_assert!((total - wanted).abs() < 1e-9);
            }
        }

        #[test]
        fn rewards_sum_to_one_or_have_mean_one(n in 1usize..40, decay in 0.05f64..1.5) {
            let sum: f64 = discounted_rewards(n, decay, RewardNorm::Sum).iter().sum();
            prop_assert!((sum - 1.0).abs() < 1e-12);
            let mean = discounted_rewards(n, decay, RewardNorm::Mean).iter().sum::<f64>() / n as f64;
            prop_assert!((mean - 1.0).abs() < 1e-12);
        }

        #[test]
        fn reward_is_decay_times_the_next(n in 2usize..40, decay in 0.05f64..1.5) {
            let rewards = discounted_rewards(n, decay, RewardNorm::Sum);
            for pair in rewards.windows(2) {
                prop_assert!((pair[0] / pair[1] - decay).abs() < 1e-9);
            }
        }

        #[test]
        fn rewards_are_finite_for_any_length_and_decay(n in 0usize..20_000, decay in prop_oneof![1e-6f64..1e-3, 0.5f64..2.0, 1e3f64..1e6]) {
            let rewards = discounted_rewards(n, decay, RewardNorm::Sum);
            prop_assert_eq!(rewards.len(), n);
            prop_assert!(rewards.iter().all(|reward| reward.is_finite()));
            if n > 0 {
                prop_assert!((rewards.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
    }
}
