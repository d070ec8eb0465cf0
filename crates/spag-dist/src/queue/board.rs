//! Who has which item, and what is done.

use std::collections::{BTreeMap, BTreeSet};

use super::Turn;

/// The list: what has not been given out, what has come back, who has what, and what is done.
#[derive(Debug)]
pub(crate) struct Board {
    /// Items from this one on have not been given out yet.
    fresh: usize,
    total: usize,
    /// Given out and returned.
    returned: BTreeSet<usize>,
    /// Who has which items.
    held: BTreeMap<usize, BTreeSet<usize>>,
    is_done: Vec<bool>,
    done: usize,
    ranks: usize,
}

impl Board {
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

    /// What a rank is to do; `None`: wait, others may still return something.
    pub(crate) fn take(&mut self, rank: usize, at_most: usize) -> Option<Turn> {
        if self.is_finished() {
            return Some(Turn::Finished);
        }
        let left = self.returned.len() + self.total - self.fresh;
        if left == 0 {
            let has_some = self.held.get(&rank).is_some_and(|held| !held.is_empty());
            return has_some.then_some(Turn::FinishYours);
        }
        // Half of every rank's share of what is left: pieces shrink as the end comes near (guided self-scheduling,
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
        Some(Turn::Items(items))
    }

    /// A rank has done these. One that does not exist or has not been given out is not believed.
    pub(crate) fn done(&mut self, rank: usize, items: &[usize]) -> Result<(), usize> {
        if let Some(wrong) = items.iter().find(|item| **item >= self.fresh) {
            return Err(*wrong);
        }
        for item in items {
            if let Some(held) = self.held.get_mut(&rank) {
                held.remove(item);
            }
            // It may have come back in the meantime, or be done already by another one.
            self.returned.remove(item);
            if let Some(is_done) = self.is_done.get_mut(*item)
                && !std::mem::replace(is_done, true)
            {
                self.done += 1;
            }
        }
        Ok(())
    }

    /// A rank is gone: what it had goes to others.
    pub(crate) fn lose(&mut self, rank: usize) {
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
    fn pieces_shrink_and_cover_everything() {
        let mut board = Board::new(100, 2);
        let mut sizes = Vec::new();
        let mut seen = Vec::new();
        while let Some(Turn::Items(items)) = board.take(sizes.len() % 2, 20) {
            sizes.push(items.len());
            seen.extend(items);
        }
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert_eq!((sizes[0], sizes[sizes.len() - 1]), (20, 1));
        assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
        assert_eq!(board.take(0, 9), Some(Turn::FinishYours));
        assert_eq!(board.take(7, 9), None);
    }

    #[test]
    fn what_a_lost_rank_had_is_given_to_others() {
        let mut board = Board::new(4, 1);
        assert_eq!(board.take(1, 2), Some(Turn::Items(vec![0, 1])));
        assert_eq!(board.take(2, 2), Some(Turn::Items(vec![2])));
        board.done(1, &[1]).unwrap();
        board.lose(1);
        assert_eq!(board.take(2, 9), Some(Turn::Items(vec![0])));
        assert_eq!(board.take(2, 9), Some(Turn::Items(vec![3])));
        // It was not dead after all.
        board.done(1, &[0]).unwrap();
        board.done(2, &[0, 2]).unwrap();
        assert!(!board.is_finished());
        board.done(2, &[3]).unwrap();
        assert_eq!(board.take(3, 1), Some(Turn::Finished));
        assert_eq!(board.done(2, &[4]), Err(4));
    }

    #[test]
    fn nothing_to_do_is_done() {
        assert_eq!(Board::new(0, 3).take(0, 1), Some(Turn::Finished));
    }

    proptest! {
        // Ranks that work, finish and die in any order: in the end, whoever lives has done everything.
        #[test]
        fn everything_is_done_in_the_end(total in 0usize..60, acts in prop::collection::vec((0usize..4, 0usize..3, 1usize..9), 0..80)) {
            let mut board = Board::new(total, 4);
            let mut held: Vec<Vec<usize>> = vec![vec![]; 4];
            let mut done = BTreeSet::new();
            let rest = (0..400).map(|act| (0, act % 2, 8));
            for (rank, act, count) in acts.into_iter().chain(std::iter::once((1, 2, 1)), ).chain([(2, 2, 1), (3, 2, 1)]).chain(rest) {
                match act {
                    0 => if let Some(Turn::Items(items)) = board.take(rank, count) {
                        prop_assert!(!items.is_empty() && items.len() <= count);
                        prop_assert!(items.iter().all(|item| !done.contains(item)));
                        prop_assert!(items.iter().all(|item| held.iter().all(|held| !held.contains(item))));
                        held[rank].extend(items);
                    },
                    1 => {
                        let part = held[rank].len().min(count);
                        let items: Vec<usize> = held[rank].drain(..part).collect();
                        board.done(rank, &items).unwrap();
                        done.extend(items);
                    }
                    _ => {
                        board.lose(rank);
                        held[rank].clear();
                    }
                }
            }
            prop_assert!(board.is_finished());
            prop_assert_eq!(done.len(), total);
        }
    }
}
