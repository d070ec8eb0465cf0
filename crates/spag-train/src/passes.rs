//! Which samples of a step each pass of each rank computes.
//!
//! All ranks meet at every layer of a pass, so the passes that run at a time, a round, are made equal in computed tokens. With few rounds
//! layers are gathered and gradients reduced few times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use crate::packing::Packing;
use crate::trajectory::Trajectory;

/// A sample of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepSample<'a> {
    pub(crate) trajectory: &'a Trajectory,
    /// What the loss of each of its spans is divided by in the step's loss.
    pub(crate) divisor: f64,
}

/// What one rank computes in a round. Empty if it only takes part in the collectives of ranks that have more passes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass<'a> {
    pub(crate) samples: Vec<StepSample<'a>>,
    /// The factor of its loss in the step's.
    pub(crate) share: f64,
}

/// The passes of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PassPlan {
    /// Of each round, of each rank: the numbers of its samples.
    rounds: Vec<Vec<Vec<usize>>>,
}

/// Samples that are computed in one pass: with trees those with a long common beginning.
struct Unit {
    samples: Vec<usize>,
    tokens: usize,
}

impl PassPlan {
    /// Passes of at most `most` tokens, but for single samples that have more, in as few rounds as a good deal takes.
    pub(crate) fn by_tokens(samples: &[&Trajectory], packing: Packing, most: usize, ranks: usize) -> Self {
        let reads: Vec<&[u32]> = samples.iter().map(|sample| packing.computed(sample)).collect();
        let plan = |units: Vec<Unit>| Self::of_units(&units, most, ranks);
        match packing {
            Packing::None => Self::by_lengths(&reads.iter().map(|ids| ids.len()).collect::<Vec<_>>(), most, ranks),
            // Small trees are dealt evenly, large ones computed once.
            Packing::Tree => {
                let sorted = Sorted::new(&reads);
                let all = sorted.tree_tokens(0..reads.len());
                let plans = [1, 2, 3, 4, 6, 8, 12].map(|part| plan(sorted.trees(most.min(all / (part * ranks)))));
                let cost = |plan: &Self| (plan.busiest_tokens(&reads), plan.rounds.len());
                plans.into_iter().min_by_key(cost).unwrap_or_default()
            }
        }
    }

    /// The same for samples of such lengths, none of which begins like another.
    pub(crate) fn by_lengths(lengths: &[usize], most: usize, ranks: usize) -> Self {
        let unit = |(at, tokens): (usize, &usize)| Unit { samples: vec![at], tokens: *tokens };
        Self::of_units(&lengths.iter().enumerate().map(unit).collect::<Vec<_>>(), most, ranks)
    }

    fn of_units(units: &[Unit], most: usize, ranks: usize) -> Self {
        let tokens: Vec<usize> = units.iter().map(|unit| unit.tokens).collect();
        let of_pass = |pass: &Vec<usize>| pass.iter().map(|unit| tokens[*unit]).sum::<usize>();
        let least = tokens.iter().sum::<usize>().div_ceil(most.saturating_mul(ranks).max(1)).max(1);
        let fits = |passes: &Vec<Vec<usize>>| passes.iter().all(|pass| pass.len() < 2 || of_pass(pass) <= most);
        // With as many passes as units each has one, and all fit.
        let rounds = std::iter::successors(Some(least), |rounds| Some(rounds + (rounds / 8).max(1)));
        let dealt = rounds.map(|rounds| deal(&tokens, rounds * ranks)).find(fits);
        let mut passes: Vec<Vec<usize>> = dealt.unwrap_or_default();
        passes.retain(|pass| !pass.is_empty());
        passes.sort_by_key(|pass| (Reverse(of_pass(pass)), pass[0]));
        let samples_of = |pass: &Vec<usize>| {
            let mut all: Vec<usize> = pass.iter().flat_map(|unit| &units[*unit].samples).copied().collect();
            all.sort_unstable();
            all
        };
        let mut rounds: Vec<Vec<Vec<usize>>> =
            passes.chunks(ranks).map(|round| round.iter().map(samples_of).collect()).collect();
        // The ranks take turns with the longest pass.
        rounds.iter_mut().skip(1).step_by(2).for_each(|round| {
            round.resize(ranks, Vec::new());
            round.reverse();
        });
        Self { rounds }
    }

    /// Tokens of the trees of the longest pass of each round.
    fn busiest_tokens(&self, reads: &[&[u32]]) -> usize {
        let tokens = |pass: &Vec<usize>| {
            let own: Vec<&[u32]> = pass.iter().map(|at| reads[*at]).collect();
            Sorted::new(&own).tree_tokens(0..own.len())
        };
        self.rounds.iter().map(|round| round.iter().map(tokens).max().unwrap_or(0)).sum()
    }

    /// Each micro-batch is a pass; the m-th belongs to rank m modulo `ranks`.
    pub(crate) fn of_micro_batches(micro_batches: impl Iterator<Item = Range<usize>>, ranks: usize) -> Self {
        let passes: Vec<Vec<usize>> = micro_batches.map(Iterator::collect).collect();
        Self { rounds: passes.chunks(ranks).map(<[_]>::to_vec).collect() }
    }

    /// The rounds: of each the samples of the ranks' passes. Those that are empty may be missing at the end.
    pub(crate) fn rounds(&self) -> &[Vec<Vec<usize>>] {
        &self.rounds
    }

    /// The samples of the passes of a rank, as many as of every other rank; a pass may have none.
    pub(crate) fn of_rank(&self, rank: usize) -> impl Iterator<Item = &[usize]> {
        self.rounds.iter().map(move |round| round.get(rank).map_or(&[][..], Vec::as_slice))
    }
}

/// Sequences in the order of their tokens, in which those that begin alike are neighbours.
struct Sorted<'a> {
    /// Their numbers.
    order: Vec<usize>,
    sequences: Vec<&'a [u32]>,
    /// How many tokens each begins with like the one before it.
    shared: Vec<usize>,
}

impl<'a> Sorted<'a> {
    fn new(all: &[&'a [u32]]) -> Self {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|at| (all[*at], *at));
        let sequences: Vec<&[u32]> = order.iter().map(|at| all[*at]).collect();
        let common = |pair: &[&[u32]]| pair[0].iter().zip(pair[1]).take_while(|(one, other)| one == other).count();
        let shared = std::iter::once(0).chain(sequences.windows(2).map(common)).collect();
        Self { order, sequences, shared }
    }

    /// Tokens that a sequence adds to the tree of those before it.
    fn added(&self, at: usize) -> usize {
        self.sequences[at].len() - self.shared[at]
    }

    /// Tokens of the tree of neighbours.
    fn tree_tokens(&self, range: Range<usize>) -> usize {
        self.shared.get(range.start).map_or(0, |shared| shared + range.map(|at| self.added(at)).sum::<usize>())
    }

    /// Trees of neighbours, of at most `limit` tokens. They are cut where neighbours have the least in common.
    fn trees(&self, limit: usize) -> Vec<Unit> {
        let (mut units, mut start, count) = (Vec::new(), 0, self.order.len());
        while start < count {
            let (mut end, mut tokens) = (start + 1, self.sequences[start].len());
            while end < count && tokens + self.added(end) <= limit {
                tokens += self.added(end);
                end += 1;
            }
            if end < count {
                // The last of several places.
                end = (start + 1..=end).rev().min_by_key(|at| self.shared[*at]).unwrap_or(end);
            }
            units.push(Unit { samples: self.order[start..end].to_vec(), tokens: self.tree_tokens(start..end) });
            start = end;
        }
        units
    }
}

/// Deals numbers to bins of nearly equal sums, by the largest differencing method (Karmarkar and Karp 1982): of the partial deals the two
/// that are least even are joined, the largest bin of one with the smallest of the other.
fn deal(sizes: &[usize], bins: usize) -> Vec<Vec<usize>> {
    let single = |(at, size): (usize, &usize)| Deal::new(at, vec![(*size, vec![at])], bins);
    let mut deals: BinaryHeap<Deal> = sizes.iter().enumerate().map(single).collect();
    for number in sizes.len().. {
        let (Some(one), other) = (deals.pop(), deals.pop()) else { break };
        let Some(other) = other else { return one.bins.into_iter().map(|(_, items)| items).collect() };
        deals.push(one.joined(other, number, bins));
    }
    Vec::new()
}

/// A deal of some of the numbers. The order of the fields is that in which deals are joined.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Deal {
    /// How far its sums are apart.
    spread: usize,
    /// Of two that are as even the earlier one is joined first.
    number: Reverse<usize>,
    /// Bins that are not empty, with their sums, the largest first.
    bins: Vec<(usize, Vec<usize>)>,
}

impl Deal {
    fn new(number: usize, mut dealt: Vec<(usize, Vec<usize>)>, bins: usize) -> Self {
        dealt.sort_by_key(|(sum, items)| (Reverse(*sum), items.first().copied()));
        let least = if dealt.len() < bins { 0 } else { dealt.last().map_or(0, |last| last.0) };
        let spread = dealt.first().map_or(0, |first| first.0) - least;
        Self { spread, number: Reverse(number), bins: dealt }
    }

    fn joined(self, other: Self, number: usize, bins: usize) -> Self {
        let mut dealt = self.bins;
        dealt.resize(bins, (0, Vec::new()));
        for ((sum, items), (size, added)) in dealt.iter_mut().rev().zip(other.bins) {
            *sum += size;
            items.extend(added);
        }
        dealt.retain(|(_, items)| !items.is_empty());
        Self::new(number, dealt, bins)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::trajectory::Span;

    fn sample(ids: Vec<u32>) -> Trajectory {
        let spans = vec![Span::new(ids.len() - 1..ids.len(), 1.0)];
        Trajectory { row: 0, ids, spans }
    }

    /// The samples of every pass, by rounds and ranks.
    fn passes(plan: &PassPlan, ranks: usize) -> Vec<Vec<Vec<usize>>> {
        let of: Vec<Vec<Vec<usize>>> = (0..ranks).map(|rank| plan.of_rank(rank).map(<[_]>::to_vec).collect()).collect();
        (0..of[0].len()).map(|round| of.iter().map(|rank| rank[round].clone()).collect()).collect()
    }

    fn tokens(packing: Packing, samples: &[Trajectory], pass: &[usize]) -> usize {
        let of_pass: Vec<&Trajectory> = pass.iter().map(|at| &samples[*at]).collect();
        if of_pass.is_empty() { 0 } else { packing.pack(&of_pass).0.len() }
    }

    /// The tokens of the longest pass of each round over the mean.
    fn load(packing: Packing, samples: &[Trajectory], plan: &PassPlan, ranks: usize) -> f64 {
        let (mut busiest, mut all) = (0, 0);
        for round in passes(plan, ranks) {
            let of_ranks: Vec<usize> = round.iter().map(|pass| tokens(packing, samples, pass)).collect();
            busiest += of_ranks.iter().max().unwrap();
            all += of_ranks.iter().sum::<usize>();
        }
        busiest as f64 * ranks as f64 / all as f64
    }

    /// Games of turns that continue each other, of both seats, whose rules are alike.
    fn games(turns: &[usize]) -> Vec<Trajectory> {
        let mut next = 10;
        let mut game = |turns: usize| {
            let mut histories = [0, 1].map(|seat| (0..60).map(|rule| 2 * rule + seat).collect::<Vec<u32>>());
            let turn = |turn: usize| {
                let ids = &mut histories[turn % 2];
                ids.extend((0..60).map(|_| {
                    next += 1;
                    200 + next
                }));
                sample(ids.clone())
            };
            (0..turns).map(turn).collect::<Vec<_>>()
        };
        turns.iter().flat_map(|turns| game(*turns)).collect()
    }

    proptest! {
        #[test]
        fn every_sample_is_in_one_pass_of_at_most_so_many_tokens(
            lengths in prop::collection::vec(2usize..900, 1..70), ranks in 1usize..9, most in 200usize..3000,
        ) {
            let samples: Vec<Trajectory> = lengths.iter().map(|length| sample((0..*length as u32).collect())).collect();
            for packing in [Packing::None, Packing::Tree] {
                let plan = PassPlan::by_tokens(&samples.iter().collect::<Vec<_>>(), packing, most, ranks);
                let rounds = passes(&plan, ranks);
                let mut all: Vec<usize> = rounds.iter().flatten().flatten().copied().collect();
                for pass in rounds.iter().flatten() {
                    prop_assert!(pass.len() < 2 || tokens(packing, &samples, pass) <= most, "{pass:?}");
                    prop_assert!(pass.is_sorted());
                }
                all.sort_unstable();
                prop_assert_eq!(all, (0..samples.len()).collect::<Vec<_>>());
            }
        }

        /// No further round than twice those that the tokens alone need.
        #[test]
        fn rounds_are_few(lengths in prop::collection::vec(50usize..500, 8..70), ranks in 1usize..5) {
            let samples: Vec<Trajectory> = lengths.iter().map(|length| sample((0..*length as u32).collect())).collect();
            let plan = PassPlan::by_tokens(&samples.iter().collect::<Vec<_>>(), Packing::None, 1000, ranks);
            let least = lengths.iter().sum::<usize>().div_ceil(1000 * ranks);
            prop_assert!(plan.rounds.len() <= least.max(lengths.len().div_ceil(2 * ranks)), "{} of {least}", plan.rounds.len());
        }

        #[test]
        fn games_are_computed_once_and_ranks_are_even(turns in prop::collection::vec(4usize..10, 24..40), ranks in 2usize..5) {
            let samples = games(&turns);
            let all: Vec<&Trajectory> = samples.iter().collect();
            let plan = PassPlan::by_tokens(&all, Packing::Tree, 100_000, ranks);
            let load = load(Packing::Tree, &samples, &plan, ranks);
            prop_assert!(load < 1.1, "{load}");
            // Cut trees are computed in part twice, and the rules by each rank.
            let computed: usize =
                passes(&plan, ranks).iter().flatten().map(|pass| tokens(Packing::Tree, &samples, pass)).sum();
            let least = tokens(Packing::Tree, &samples, &(0..samples.len()).collect::<Vec<_>>());
            prop_assert!(computed as f64 <= 1.15 * least as f64 + 120.0 * ranks as f64, "{computed} of {least}");
        }
    }

    #[test]
    fn ranks_have_equal_tokens_where_micro_batches_do_not() {
        // Four ranks with four samples each, of the lengths of games and of short rows.
        let lengths = [900, 60, 850, 110, 400, 520, 640, 45, 38, 777, 310, 290, 480, 505, 66, 720];
        let samples: Vec<Trajectory> = lengths.iter().map(|length| sample((0..*length).collect())).collect();
        let even = PassPlan::by_tokens(&samples.iter().collect::<Vec<_>>(), Packing::None, 100_000, 4);
        let dealt = PassPlan::of_micro_batches((0..8).map(|m| 2 * m..2 * m + 2), 4);
        assert_eq!((passes(&even, 4).len(), passes(&dealt, 4).len()), (1, 2));
        let of = |plan| load(Packing::None, &samples, plan, 4);
        assert!(of(&even) < 1.01 && of(&dealt) > 1.15, "{} and {}", of(&even), of(&dealt));
    }

    #[test]
    fn differencing_by_hand() {
        // Greedily 8 + 5 + 4 and 7 + 6 are 4 apart; this deal is 8 + 6 and 7 + 5 + 4.
        assert_eq!(deal(&[8, 7, 6, 5, 4], 2).iter().map(Vec::len).sum::<usize>(), 5);
        let sums = |sizes: &[usize], bins| -> Vec<usize> {
            deal(sizes, bins).iter().map(|bin| bin.iter().map(|at| sizes[*at]).sum()).collect()
        };
        assert_eq!(sums(&[8, 7, 6, 5, 4], 2), [16, 14]);
        assert_eq!(sums(&[9, 9, 9], 3), [9, 9, 9]);
        assert_eq!(sums(&[3], 4), [3]);
        assert!(deal(&[], 3).is_empty());
    }

    #[test]
    fn micro_batches_are_dealt_in_turn() {
        let plan = PassPlan::of_micro_batches([0..2, 2..3, 3..4].into_iter(), 2);
        assert_eq!(passes(&plan, 2), [[vec![0, 1], vec![2]], [vec![3], vec![]]]);
    }
}
