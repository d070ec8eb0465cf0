//! Rewards against those of other games about the same item: GRPO (Shao et al. 2024, arXiv 2402.03300) and Dr. GRPO (Liu et
//! al. 2025, arXiv 2503.20783).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spag_game::SEATS;

use super::{Advantages, Estimator, RewardedGame};
use crate::{Error, Result};

/// All utterances of a seat have R − mean, or (R − mean) / (deviation + 1e-6), over the rewards of the seat in the games of the
/// batch with the same kind and key. A group has at least two games. Where all rewards
/// are equal, advantages are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Group {
    /// What the difference from the mean is divided by.
    pub deviation: Deviation,
}

/// What differences from a group's mean are divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deviation {
    /// The group's deviation, with n − 1, plus 1e-6: GRPO.
    #[default]
    Unbiased,
    /// Nothing: Dr. GRPO.
    None,
}

/// Added to a deviation.
const EPSILON: f64 = 1e-6;

impl Estimator for Group {
    fn advantages(&mut self, games: &[RewardedGame]) -> Result<Advantages> {
        let mut groups = BTreeMap::<(&str, &str), Vec<[f64; SEATS]>>::new();
        for game in games {
            groups.entry((&game.kind, &game.key)).or_default().push(game.rewards);
        }
        let mut all = Advantages::default();
        for game in games {
            let group = &groups[&(game.kind.as_str(), game.key.as_str())];
            if group.len() < 2 {
                return Err(Error::LoneGame { kind: game.kind.clone(), key: game.key.clone() });
            }
            let advantage = |seat: usize| {
                let n = group.len() as f64;
                let mean = group.iter().map(|rewards| rewards[seat]).sum::<f64>() / n;
                let difference = game.rewards[seat] - mean;
                match self.deviation {
                    Deviation::None => difference,
                    Deviation::Unbiased => {
                        let squares: f64 = group.iter().map(|rewards| (rewards[seat] - mean).powi(2)).sum();
                        difference / ((squares / (n - 1.0)).sqrt() + EPSILON)
                    }
                }
            };
            let advantages: [f64; SEATS] = std::array::from_fn(advantage);
            all.push(game, |_, turn| Some(advantages[turn.seat.index()]))?;
        }
        Ok(all)
    }
}
