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

#[cfg(test)]
mod tests {
    use spag_game::{Verdict, taboo};
    use spag_rewards::OutcomeRewards;

    use super::*;
    use crate::config::SignalSettings;

    fn games(endings: &[spag_game::Ending]) -> Vec<(usize, RewardedGame)> {
        let game = |(number, ending): (usize, &spag_game::Ending)| {
            let verdict = Verdict::of(*ending, 2);
            (number, RewardedGame::new(&taboo::LABELS, "tea", &verdict, Vec::new(), &OutcomeRewards::default()))
        };
        endings.iter().enumerate().map(game).collect()
    }

    fn select(group_size: usize, signal: SignalSettings, all: &[(usize, RewardedGame)]) -> (Selection, Vec<usize>) {
        let settings = OnlineSettings { games_per_update: 4, group_size, signal, ..OnlineSettings::default() };
        let selection = Selection::new(&settings, all);
        let kept = all.iter().map(|(number, _)| *number).filter(|number| selection.keeps(*number)).collect();
        (selection, kept)
    }

    #[test]
    fn groups_of_equal_rewards_are_left_out_if_others_can_be_played() {
        use taboo::{RIGHT_GUESS as WON, TIE, WRONG_GUESS as LOST};
        let all = games(&[WON, WON, TIE, TIE, WON, LOST, TIE, WON]);
        let (selection, kept) = select(2, SignalSettings::default(), &all);
        assert_eq!((kept, selection.missing), (vec![0, 1, 2, 3], 0));
        // Of four groups two have equal rewards. Variances of both seats: 0, 0, 1 and 1/4.
        assert_eq!((selection.without_signal, selection.reward_variance), (0.5, 1.25 / 4.0));
        let resample = SignalSettings { resample: 1, ..SignalSettings::default() };
        let (selection, kept) = select(2, resample.clone(), &all);
        assert_eq!((kept, selection.missing), (vec![4, 5, 6, 7], 0));
        let (selection, kept) = select(2, resample, &all[..6]);
        assert_eq!((kept, selection.missing), (vec![4, 5], 1));
    }

    #[test]
    fn ties_have_at_most_the_share_that_is_left() {
        use taboo::{RIGHT_GUESS as WON, TIE};
        let all = games(&[TIE, TIE, WON, TIE, TIE, WON, TIE]);
        let of = |decisive_share| select(1, SignalSettings { decisive_share, ..SignalSettings::default() }, &all);
        assert_eq!(of(0.0).1, [0, 1, 2, 3]);
        assert_eq!(of(0.5).1, [0, 1, 2, 5]);
        assert_eq!((of(1.0).1, of(1.0).0.missing), (vec![2, 5], 2));
        assert_eq!(select(1, SignalSettings::default(), &games(&[TIE; 4])).0.without_signal, 1.0);
    }
}
