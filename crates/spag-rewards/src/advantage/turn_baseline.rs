//! Advantages of turns against the means of roles, whitened over tokens: MARSHAL (Yuan et al. 2025, arXiv 2510.15414).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spag_game::SEATS;

use super::{Advantages, Estimator, RewardedGame, check_gamma};
use crate::Result;

/// A seat's reward belongs to its last turn; its earlier turns have 0. A return is the sum of a turn's reward and those of the
/// seat's later turns, each turn discounted by γ once more. To whiten is to subtract the mean and to divide by
/// √(variance + 1e-8), over all learned tokens of the batch, with n − 1.
///
/// [`NormaliseOrder::NormaliseFirst`] is the order of MARSHAL's code with its published settings (`roll/utils/functionals.py`:
/// `reward_postprocess_agentic`, `compute_advantage`), [`NormaliseOrder::SumFirst`] that of its paper.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TurnBaseline {
    /// γ, above 0 and up to 1. The code's discounts per token, which is the same for its 1.
    pub gamma: f64,
    /// What comes first.
    pub order: NormaliseOrder,
}

/// The order of sums over turns and of normalisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormaliseOrder {
    /// 1. Rewards of turns minus their mean per kind of game and role. 2. Whitened, where the reward of a turn is that of its
    ///    last token, and other tokens have 0. 3. Returns. 4. Minus the mean of the distinct returns of the role in all games,
    ///    of which 0, the return after the last turn, is one. 5. Whitened, where all tokens of a turn have its return.
    #[default]
    NormaliseFirst,
    /// 1. Returns. 2. Minus their mean over turns, per kind of game and role. 3. Whitened, where all tokens of a turn have its
    ///    return.
    SumFirst,
}

/// Added to a variance.
const EPSILON: f64 = 1e-8;
/// Whitened returns that differ by less are one: equal but for the order of sums.
const SAME: f64 = 1e-9;

impl Default for TurnBaseline {
    fn default() -> Self {
        Self { gamma: 1.0, order: NormaliseOrder::NormaliseFirst }
    }
}

impl TurnBaseline {
    pub(super) fn check(&self) -> Result<()> {
        check_gamma(self.gamma)
    }
}

impl Estimator for TurnBaseline {
    fn advantages(&mut self, games: &[RewardedGame]) -> Result<Advantages> {
        let mut turns = Turns::new(games);
        match self.order {
            NormaliseOrder::NormaliseFirst => {
                turns.subtract_means(|turn| (turn.kind, turn.seat));
                turns.scale_rewards();
                turns.sum(self.gamma);
                turns.subtract_means_of_distinct();
            }
            NormaliseOrder::SumFirst => {
                turns.sum(self.gamma);
                turns.subtract_means(|turn| (turn.kind, turn.seat));
            }
        }
        turns.whiten();
        let mut values: Vec<Vec<_>> = games.iter().map(|game| vec![None; game.turns.len()]).collect();
        for turn in &turns.0 {
            values[turn.game][turn.at] = Some(turn.value);
        }
        let mut all = Advantages::default();
        for (game, of_turn) in games.iter().zip(values) {
            all.push(game, |at, _| of_turn[at])?;
        }
        Ok(all)
    }
}

/// A learned turn of a batch.
struct Valued<'a> {
    game: usize,
    /// Its index in the game.
    at: usize,
    kind: &'a str,
    seat: usize,
    tokens: f64,
    value: f64,
}

/// All learned turns of a batch: game by game, seat by seat, in order.
struct Turns<'a>(Vec<Valued<'a>>);

impl<'a> Turns<'a> {
    /// Every turn with its reward.
    fn new(games: &'a [RewardedGame]) -> Self {
        let mut turns = Vec::new();
        for (index, game) in games.iter().enumerate() {
            for seat in 0..SEATS {
                let last = game.turns_of(seat).next_back();
                turns.extend(game.turns_of(seat).map(|at| Valued {
                    game: index,
                    at,
                    kind: &game.kind,
                    seat,
                    tokens: game.turns[at].tokens as f64,
                    value: if Some(at) == last { game.rewards[seat] } else { 0.0 },
                }));
            }
        }
        Self(turns)
    }

    fn tokens(&self) -> f64 {
        self.0.iter().map(|turn| turn.tokens).sum()
    }

    /// Subtracts from each value the mean of the turns with the same key.
    fn subtract_means<K: Ord>(&mut self, key: impl Fn(&Valued<'a>) -> K) {
        let mut sums = BTreeMap::<K, (f64, f64)>::new();
        for turn in &self.0 {
            let (sum, count) = sums.entry(key(turn)).or_default();
            (*sum, *count) = (*sum + turn.value, *count + 1.0);
        }
        for turn in &mut self.0 {
            let (sum, count) = sums[&key(turn)];
            turn.value -= sum / count;
        }
    }

    /// Whitens rewards at last tokens, whose mean is 0.
    fn scale_rewards(&mut self) {
        let squares: f64 = self.0.iter().map(|turn| turn.value * turn.value).sum();
        let deviation = (squares / (self.tokens() - 1.0).max(1.0) + EPSILON).sqrt();
        self.0.iter_mut().for_each(|turn| turn.value /= deviation);
    }

    /// Values to returns.
    fn sum(&mut self, gamma: f64) {
        for after in (1..self.0.len()).rev() {
            let (turn, next) = (&self.0[after - 1], &self.0[after]);
            if (turn.game, turn.seat) == (next.game, next.seat) {
                self.0[after - 1].value += gamma * self.0[after].value;
            }
        }
    }

    /// Subtracts from each value the mean of the distinct values of its seat and 0.
    fn subtract_means_of_distinct(&mut self) {
        for seat in 0..SEATS {
            let of_seat = || self.0.iter().filter(|turn| turn.seat == seat).map(|turn| turn.value);
            let mut distinct: Vec<f64> = of_seat().chain([0.0]).collect();
            distinct.sort_by(f64::total_cmp);
            distinct.dedup_by(|next, one| *next - *one < SAME);
            let mean = distinct.iter().sum::<f64>() / distinct.len() as f64;
            self.0.iter_mut().filter(|turn| turn.seat == seat).for_each(|turn| turn.value -= mean);
        }
    }

    /// Whitens values that all tokens of a turn have.
    fn whiten(&mut self) {
        let tokens = self.tokens();
        let mean = self.0.iter().map(|turn| turn.tokens * turn.value).sum::<f64>() / tokens;
        let squares: f64 = self.0.iter().map(|turn| turn.tokens * (turn.value - mean).powi(2)).sum();
        let deviation = (squares / (tokens - 1.0).max(1.0) + EPSILON).sqrt();
        self.0.iter_mut().for_each(|turn| turn.value = (turn.value - mean) / deviation);
    }
}
