//! Role-conditioned advantage estimation (SPIRAL, Liu et al. 2025, arXiv 2506.24119; `train_spiral.py` of its code).

use serde::{Deserialize, Serialize};

use super::baseline::{EstimatorState, check_decay};
use super::{Advantages, Estimator, RewardedGame, check_gamma};
use crate::Result;

/// A = R − b with a baseline b for each kind of game and role, which then moves: b ← decay·b + (1 − decay)·R, game by game in
/// their order, from 0. An utterance has A·γ^(turns of the game that follow it). An advantage of 0 is left out. Nothing is
/// divided by a deviation.
///
/// Where γ is not 1: the paper's code counts only the turns of the same player that follow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rae {
    /// From 0, the last reward, to below 1.
    pub decay: f64,
    /// γ, above 0 and up to 1.
    pub gamma: f64,
}

/// The paper's.
impl Default for Rae {
    fn default() -> Self {
        Self { decay: 0.95, gamma: 1.0 }
    }
}

impl Rae {
    pub(super) fn check(&self) -> Result<()> {
        check_decay(self.decay)?;
        check_gamma(self.gamma)
    }
}

/// [`Rae`] with its baselines.
pub(super) struct RunningRae {
    pub(super) settings: Rae,
    pub(super) state: EstimatorState,
}

impl Estimator for RunningRae {
    fn advantages(&mut self, games: &[RewardedGame]) -> Result<Advantages> {
        let Rae { decay, gamma } = self.settings;
        let mut all = Advantages::default();
        for game in games {
            let advantages = self.state.compare(game, decay);
            let last = game.turns.len().saturating_sub(1);
            let discounted = |at: usize, seat: usize| advantages[seat] * gamma.powf((last - at) as f64);
            all.push(game, |at, turn| Some(discounted(at, turn.seat.index())).filter(|advantage| *advantage != 0.0))?;
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
