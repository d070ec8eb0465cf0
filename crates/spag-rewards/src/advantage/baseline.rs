//! Running means of rewards, one for each kind of game and role.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spag_game::SEATS;

use super::{RewardedGame, check};
use crate::Result;

/// The state of an estimator between batches, in checkpoints. Empty for estimators without.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EstimatorState {
    /// By kind of game: the baseline b of each seat, by [`Seat::index`](spag_game::Seat::index).
    pub baselines: BTreeMap<String, [f64; SEATS]>,
}

impl EstimatorState {
    /// R − b of each seat; then b ← decay·b + (1 − decay)·R for the seats that learn. A kind's baselines begin at 0.
    pub(super) fn compare(&mut self, game: &RewardedGame, decay: f64) -> [f64; SEATS] {
        let baselines = self.baselines.entry(game.kind.clone()).or_default();
        let mut differences = game.rewards;
        let seats = differences.iter_mut().zip(baselines).enumerate().filter(|(seat, _)| game.learns(*seat));
        for (_, (difference, baseline)) in seats {
            let reward = *difference;
            *difference = reward - *baseline;
            *baseline = decay * *baseline + (1.0 - decay) * reward;
        }
        differences
    }
}

/// Checks the decay of a baseline.
pub(super) fn check_decay(decay: f64) -> Result<()> {
    check("decay", decay, (0.0..1.0).contains(&decay), "a number from 0 and below 1; SPIRAL's is 0.95")
}
