//! What the updates of an on-policy run warn of: that nothing is learned, or that the policy collapses.

use std::collections::BTreeMap;

/// A share of ties above which win rates, which are of the other games, say little.
pub const MANY_TIES: f64 = 0.6;
/// A share of groups without a signal that a warning names.
const MANY_WITHOUT_SIGNAL: f64 = 0.5;
/// What is left of a measure that has collapsed, as a share of its first value.
const COLLAPSED: f64 = 0.1;
/// Nats that a measure has to begin with to collapse: below it, noise is as large.
const LEAST_NATS: f64 = 0.05;

/// Measures of updates, by their keys in `metrics.jsonl`. They may be thinned.
///
/// ```
/// let mut measures = spag_run::UpdateMeasures::default();
/// (1..=20).for_each(|update| measures.add("nim/ties", update, 0.75));
/// let [alarm] = &measures.alarms()[..] else { panic!() };
/// assert!(alarm.starts_with("nim: 75% of the games of the last 2 updates are ties"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct UpdateMeasures(BTreeMap<String, Vec<(u64, f64)>>);

/// The first and the last tenth of the updates, as those up to one and those from one on.
struct Tenths {
    first: u64,
    last: u64,
    /// Updates of each.
    updates: u64,
}

impl UpdateMeasures {
    /// Adds what was measured in an update.
    pub fn add(&mut self, key: &str, update: u64, value: f64) {
        match self.0.get_mut(key) {
            Some(points) => points.push((update, value)),
            None => drop(self.0.insert(key.to_owned(), vec![(update, value)])),
        }
    }

    /// What looks wrong in the last tenth of the updates, a sentence each.
    pub fn alarms(&self) -> Vec<String> {
        let Some(tenths) = self.tenths() else { return Vec::new() };
        let last = match tenths.updates {
            1 => "the last update".to_owned(),
            updates => format!("the last {updates} updates"),
        };
        let above = |key: &str, limit: f64| self.last(key, &tenths).filter(|share| *share > limit);
        let silent = above("without_signal", MANY_WITHOUT_SIGNAL).map(|share| {
            format!(
                "Nothing was learned in {:.0}% of the groups of games of {last} (of the batches, if a group is one \
                 game): their games ended alike. docs/ONLINE.md says which settings help",
                100.0 * share
            )
        });
        let information = self.collapse("item_information", &tenths).map(|[before, after]| {
            format!(
                "The information of first utterances about the item fell from {before:.2} to {after:.2} nats in {last}: what is said \
                 hardly depends on what the game is about"
            )
        });
        let entropy = self.collapse("entropy", &tenths).map(|[before, after]| {
            format!(
                "The entropy fell from {before:.3} to {after:.3} nats a token in {last}: games on one item hardly differ"
            )
        });
        let ties = self.0.keys().filter(|key| *key == "ties" || key.ends_with("/ties")).filter_map(|key| {
            let of_game = key.strip_suffix("/ties").map(|game| format!("{game}: ")).unwrap_or_default();
            let share = 100.0 * above(key, MANY_TIES)?;
            Some(format!("{of_game}{share:.0}% of the games of {last} are ties; win rates are of the others"))
        });
        silent.into_iter().chain(information).chain(entropy).chain(ties).collect()
    }

    /// `None` without updates.
    fn tenths(&self) -> Option<Tenths> {
        let updates = || self.0.values().flatten().map(|(update, _)| *update);
        let (first, last) = (updates().min()?, updates().max()?);
        let tenth = (last - first).saturating_add(1).div_ceil(10);
        Some(Tenths { first: first.saturating_add(tenth - 1), last: last - (tenth - 1), updates: tenth })
    }

    fn mean(&self, key: &str, is_in: impl Fn(u64) -> bool) -> Option<f64> {
        let values = || self.0.get(key).into_iter().flatten().filter(|(update, _)| is_in(*update));
        let count = values().count();
        (count > 0).then(|| values().map(|(_, value)| value).sum::<f64>() / count as f64)
    }

    fn last(&self, key: &str, tenths: &Tenths) -> Option<f64> {
        self.mean(key, |update| update >= tenths.last)
    }

    /// The means over the first and the last tenth of a measure in nats that has collapsed.
    fn collapse(&self, key: &str, tenths: &Tenths) -> Option<[f64; 2]> {
        let before = self.mean(key, |update| update <= tenths.first)?;
        let after = self.last(key, tenths)?;
        (before > LEAST_NATS && after < COLLAPSED * before).then_some([before, after])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many updates, each with a measure that depends on it.
    fn alarms(key: &str, updates: u64, value: impl Fn(u64) -> f64) -> Vec<String> {
        let mut measures = UpdateMeasures::default();
        (1..=updates).for_each(|update| measures.add(key, update, value(update)));
        measures.alarms()
    }

    #[test]
    fn the_last_tenth_alone_is_judged() {
        let late = |from: u64| move |update: u64| f64::from(u8::from(update >= from));
        for key in ["without_signal", "ties"] {
            assert_eq!(alarms(key, 30, late(28)).len(), 1, "{key}");
            // One of three updates.
            assert_eq!(alarms(key, 30, late(30)), [""; 0], "{key}");
            assert_eq!(alarms(key, 30, |update| 1.0 - late(28)(update)), [""; 0], "{key}");
        }
        let said = alarms("without_signal", 30, late(28));
        assert!(
            said[0].starts_with("Nothing was learned in 100% of the groups of games of the last 3 updates"),
            "{said:?}"
        );
        assert_eq!(
            alarms("ties", 1, |_| 0.61),
            ["61% of the games of the last update are ties; win rates are of the others"]
        );
        assert_eq!(alarms("ties", 1, |_| 0.6), [""; 0]);
        assert_eq!(UpdateMeasures::default().alarms(), [""; 0]);
    }

    #[test]
    fn a_collapse_is_told_from_a_small_measure() {
        for key in ["item_information", "entropy"] {
            let falls_to = |end: f64, start: f64| alarms(key, 20, |update| if update > 18 { end } else { start });
            assert_eq!(falls_to(0.09, 1.0).len(), 1, "{key}");
            assert_eq!(falls_to(0.11, 1.0), [""; 0], "{key}");
            assert_eq!(falls_to(0.0, 0.05), [""; 0], "{key}: noise");
            assert_eq!(alarms(key, 1, |_| 1.0), [""; 0], "{key}");
        }
        assert!(alarms("loss", 20, |update| 1.0 / update as f64).is_empty());
    }

    #[test]
    fn each_game_has_its_ties_and_thinned_measures_their_updates() {
        let mut measures = UpdateMeasures::default();
        for update in (1..=1000).step_by(8) {
            measures.add("nim/ties", update, f64::from(u8::from(update > 890)));
            measures.add("taboo/ties", update, f64::from(u8::from(update <= 890)));
        }
        assert_eq!(
            measures.alarms(),
            ["nim: 100% of the games of the last 100 updates are ties; win rates are of the others"]
        );
        let mut extreme = UpdateMeasures::default();
        [0, u64::MAX].into_iter().for_each(|update| extreme.add("ties", update, f64::NAN));
        assert_eq!(extreme.alarms(), [""; 0]);
    }
}
