//! Which of an update's games are learned from, and how much there is to learn from them.

use std::collections::{BTreeMap, BTreeSet};

use spag_game::SEATS;
use spag_rewards::RewardedGame;

use crate::config::OnlineSettings;

/// Rewards closer than this are equal.
const EQUAL: f64 = 1e-9;

/// The games of an update that are learned from, and what those of the update are worth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Selection {
    /// The groups that are learned from, by the numbers of their games over the size of a group.
    kept: BTreeSet<usize>,
    /// Groups that are missing to a whole update.
    pub(super) missing: usize,
    /// Share of the groups in which all games have equal rewards, in each seat that learns; of the batches of each kind of game if a
    /// group is one game.
    pub(super) without_signal: f64,
    /// Mean variance of a seat's rewards in such a group.
    pub(super) reward_variance: f64,
    group_size: usize,
}

/// The games of a group, or of a batch.
#[derive(Default)]
struct Unit<'a>(Vec<&'a RewardedGame>);

impl Unit<'_> {
    /// The variance of the rewards of each seat that learns.
    fn variances(&self) -> impl Iterator<Item = f64> {
        (0..SEATS).filter(|seat| self.0.iter().any(|game| game.learner.is_none_or(|own| own.index() == *seat))).map(
            |seat| {
                let rewards = self.0.iter().map(|game| game.rewards[seat]);
                let count = self.0.len() as f64;
                let mean = rewards.clone().sum::<f64>() / count;
                rewards.map(|reward| (reward - mean).powi(2)).sum::<f64>() / count
            },
        )
    }

    fn has_signal(&self) -> bool {
        self.variances().any(|variance| variance > EQUAL)
    }

    fn is_decisive(&self) -> bool {
        self.0.iter().any(|game| (game.rewards[0] - game.rewards[1]).abs() > EQUAL)
    }
}

impl Selection {
    /// Of the games of all ranks, with their numbers. `games` are as many as an update learns from.
    pub(super) fn new(settings: &OnlineSettings, all: &[(usize, RewardedGame)]) -> Self {
        let group_size = settings.group_size;
        let wanted = settings.games_per_update / group_size;
        let mut groups: BTreeMap<usize, Unit<'_>> = BTreeMap::new();
        let mut batches: BTreeMap<(&str, Option<usize>), Unit<'_>> = BTreeMap::new();
        for (number, game) in all {
            groups.entry(number / group_size).or_default().0.push(game);
            batches.entry((&game.kind, game.learner.map(|seat| seat.index()))).or_default().0.push(game);
        }
        let units: Vec<&Unit<'_>> = if group_size > 1 { groups.values().collect() } else { batches.values().collect() };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let silent: Vec<f64> = units.iter().map(|unit| f64::from(u8::from(!unit.has_signal()))).collect();
        let variances: Vec<f64> = units.iter().flat_map(|unit| unit.variances()).collect();

        let (leaves_out, share) = (settings.signal.resample > 0 && group_size > 1, settings.signal.decisive_share);
        let usable = || groups.iter().filter(|(_, unit)| !leaves_out || unit.has_signal());
        let decisive = usable().filter(|(_, unit)| unit.is_decisive()).count();
        let mut ties = match share > 0.0 {
            // The part of `1 - share` beside that of `share`; a little more, for rounding.
            true => (decisive.min(wanted) as f64 * (1.0 - share) / share + 1e-6) as usize,
            false => usize::MAX,
        };
        let mut kept = BTreeSet::new();
        for (group, unit) in usable() {
            if kept.len() == wanted {
                break;
            }
            if !unit.is_decisive() {
                if ties == 0 {
                    continue;
                }
                ties -= 1;
            }
            kept.insert(*group);
        }
        Self {
            missing: wanted.saturating_sub(kept.len()),
            kept,
            without_signal: mean(&silent),
            reward_variance: mean(&variances),
            group_size,
        }
    }

    /// Whether the game of this number is learned from.
    pub(super) fn keeps(&self, number: usize) -> bool {
        self.kept.contains(&(number / self.group_size))
    }
}
