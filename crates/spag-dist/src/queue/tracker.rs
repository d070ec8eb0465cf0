//! Tracks which rank holds which items, and which items are done.

use std::collections::{BTreeMap, BTreeSet};

use super::Assignment;

#[derive(Debug)]
pub(crate) struct ItemTracker {
    /// The first item that has not been assigned yet; all later ones are unassigned too.
    fresh: usize,
    total: usize,
    /// Items of lost ranks, to be reassigned.
    returned: BTreeSet<usize>,
    /// The items that each rank holds.
    held: BTreeMap<usize, BTreeSet<usize>>,
    is_done: Vec<bool>,
    done: usize,
    ranks: usize,
}

impl ItemTracker {
    pub(crate) fn new(total: usize, ranks: usize) -> Self {
        Self {
            fresh: 0,
            total,
            returned: BTreeSet::new(),
            held: BTreeMap::new(),
            is_done: vec![false; total],
            done: 0,
            ranks: ranks.max(1),
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.done == self.total
    }

    /// The next assignment of a rank; `None` if it must wait, since lost ranks may still return items.
    pub(crate) fn assign(&mut self, rank: usize, at_most: usize) -> Option<Assignment> {
        if self.is_finished() {
            return Some(Assignment::Finished);
        }
        let left = self.returned.len() + self.total - self.fresh;
        if left == 0 {
            let holds_some = self.held.get(&rank).is_some_and(|held| !held.is_empty());
            return holds_some.then_some(Assignment::FinishHeld);
        }
        // Half of a rank's share of the remaining items, so pieces shrink towards the end (guided self-scheduling,
        // Polychronopoulos and Kuck 1987).
        let size = left.div_ceil(2 * self.ranks).min(at_most.max(1));
        let mut items = Vec::with_capacity(size);
        while items.len() < size {
            match self.returned.pop_first() {
                Some(item) => items.push(item),
                None if self.fresh < self.total => {
                    items.push(self.fresh);
                    self.fresh += 1;
                }
                None => break,
            }
        }
        self.held.entry(rank).or_default().extend(&items);
        Some(Assignment::Items(items))
    }

    /// Records items that a rank has done.
    ///
    /// # Errors
    /// The first item that was never assigned.
    pub(crate) fn done(&mut self, rank: usize, items: &[usize]) -> Result<(), usize> {
        if let Some(wrong) = items.iter().find(|item| **item >= self.fresh) {
            return Err(*wrong);
        }
        for item in items {
            if let Some(held) = self.held.get_mut(&rank) {
                held.remove(item);
            }
            // It may have been returned, or done by another rank.
            self.returned.remove(item);
            if let Some(is_done) = self.is_done.get_mut(*item)
                && !std::mem::replace(is_done, true)
            {
                self.done += 1;
            }
        }
        Ok(())
    }

    /// Returns the unfinished items of a lost rank to the list.
    pub(crate) fn return_items(&mut self, rank: usize) {
        let held = self.held.remove(&rank).unwrap_or_default();
        let not_done = |item: &usize| !self.is_done.get(*item).copied().unwrap_or(true);
        self.returned.extend(held.into_iter().filter(not_done));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_shrink_and_cover_all_items() {
        let mut tracker = ItemTracker::new(100, 2);
        let mut sizes = Vec::new();
        let mut seen = Vec::new();
        while let Some(Assignment::Items(items)) = tracker.assign(sizes.len() % 2, 20) {
            sizes.push(items.len());
            seen.extend(items);
        }
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert_eq!((sizes[0], sizes[sizes.len() - 1]), (20, 1));
        assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
        assert_eq!(tracker.assign(0, 9), Some(Assignment::FinishHeld));
        assert_eq!(tracker.assign(7, 9), None);
    }

    #[test]
    fn items_of_a_lost_rank_are_reassigned() {
        let mut tracker = ItemTracker::new(4, 1);
        assert_eq!(tracker.assign(1, 2), Some(Assignment::Items(vec![0, 1])));
        assert_eq!(tracker.assign(2, 2), Some(Assignment::Items(vec![2])));
        tracker.done(1, &[1]).unwrap();
        tracker.return_items(1);
        assert_eq!(tracker.assign(2, 9), Some(Assignment::Items(vec![0])));
        assert_eq!(tracker.assign(2, 9), Some(Assignment::Items(vec![3])));
        // The rank was not dead.
        tracker.done(1, &[0]).unwrap();
        tracker.done(2, &[0, 2]).unwrap();
        assert!(!tracker.is_finished());
        tracker.done(2, &[3]).unwrap();
        assert_eq!(tracker.assign(3, 1), Some(Assignment::Finished));
        assert_eq!(tracker.done(2, &[4]), Err(4));
    }

    #[test]
    fn empty_list_is_finished() {
        assert_eq!(ItemTracker::new(0, 3).assign(0, 1), Some(Assignment::Finished));
    }

    proptest! {
        // Ranks that work, finish and die in any order.
        #[test]
        fn all_items_are_done_while_one_rank_lives(total in 0usize..60, acts in prop::collection::vec((0usize..4, 0usize..3, 1usize..9), 0..80)) {
            let mut tracker = ItemTracker::new(total, 4);
            let mut held: Vec<Vec<usize>> = vec![vec![]; 4];
            let mut done = BTreeSet::new();
            let rest = (0..400).map(|act| (0, act % 2, 8));
            for (rank, act, count) in acts.into_iter().chain(std::iter::once((1, 2, 1)), ).chain([(2, 2, 1), (3, 2, 1)]).chain(rest) {
                match act {
                    0 => if let Some(Assignment::Items(items)) = tracker.assign(rank, count) {
                        prop_assert!(!items.is_empty() && items.len() <= count);
                        prop_assert!(items.iter().all(|item| !done.contains(item)));
                        prop_assert!(items.iter().all(|item| held.iter().all(|held| !held.contains(item))));
                        held[rank].extend(items);
                    },
                    1 => {
                        let part = held[rank].len().min(count);
                        let items: Vec<usize> = held[rank].drain(..part).collect();
                        tracker.done(rank, &items).unwrap();
                        done.extend(items);
                    }
                    _ => {
                        tracker.return_items(rank);
                        held[rank].clear();
                    }
                }
            }
            prop_assert!(tracker.is_finished());
            prop_assert_eq!(done.len(), total);
        }
    }
}
