//! Which part of a buffer travels when.
//!
//! Legend: N ranks, rank r sends to r + 1 and receives from r − 1 (modulo N). In a reduce-scatter, part p starts at
//! rank p + 1, is added to at every rank that it passes, and ends summed at rank p, after N − 1 steps; in an all-gather
//! it starts at rank p and is copied. Whatever is received in one step is what is sent in the next, so a step may begin
//! before the one before it has ended.

use std::ops::Range;

/// What a step does with what it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Adds it to what is there.
    Add,
    /// Replaces what is there.
    Replace,
}

/// One step: bytes of the buffer to send, and bytes to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) send: Range<usize>,
    pub(crate) receive: Range<usize>,
    pub(crate) arrival: Arrival,
}

/// Steps, of which each one but the first sends what the one before it has received.
pub(crate) type Schedule = Vec<Step>;

/// A rank's place in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rank: usize,
    pub(crate) size: usize,
}

impl Place {
    /// The rank so many places before this one; at most `2 · size`.
    fn back(self, places: usize) -> usize {
        (self.rank + 2 * self.size - places) % self.size
    }

    pub(crate) fn next(self) -> usize {
        (self.rank + 1) % self.size
    }

    pub(crate) fn previous(self) -> usize {
        self.back(1)
    }
}

/// The bytes of part `part` of `size`, of `len` elements of `width` bytes: parts have ⌈len / size⌉ elements, but the
/// last ones, which have what is left.
pub(crate) fn part(part: usize, size: usize, len: usize, width: usize) -> Range<usize> {
    let elements = len.div_ceil(size.max(1));
    (part * elements).min(len) * width..((part + 1) * elements).min(len) * width
}

/// Every rank ends with its own part summed.
pub(crate) fn reduce_scatter(place: Place, len: usize, width: usize) -> Schedule {
    let part = |owner| part(owner, place.size, len, width);
    let step = |step: usize| Step {
        send: part(place.back(step + 1)),
        receive: part(place.back(step + 2)),
        arrival: Arrival::Add,
    };
    (0..place.size - 1).map(step).collect()
}

/// Every rank ends with everybody's part.
pub(crate) fn all_gather(place: Place, len: usize, width: usize) -> Schedule {
    let part = |owner| part(owner, place.size, len, width);
    let step = |step: usize| Step {
        send: part(place.back(step)),
        receive: part(place.back(step + 1)),
        arrival: Arrival::Replace,
    };
    (0..place.size - 1).map(step).collect()
}

/// Every rank ends with everything summed.
pub(crate) fn all_reduce(place: Place, len: usize, width: usize) -> Schedule {
    let mut steps = reduce_scatter(place, len, width);
    steps.extend(all_gather(place, len, width));
    steps
}

/// Every rank ends with the root's buffer of so many bytes.
pub(crate) fn broadcast(place: Place, root: usize, bytes: usize) -> Schedule {
    let (none, all) = (0..0, 0..bytes);
    let first = place.rank == root;
    let last = place.next() == root;
    let step = |send: &Range<usize>, receive: &Range<usize>| Step {
        send: send.clone(),
        receive: receive.clone(),
        arrival: Arrival::Replace,
    };
    match (first, last) {
        (true, _) => vec![step(&all, &none)],
        (false, true) => vec![step(&none, &all)],
        (false, false) => vec![step(&none, &all), step(&all, &none)],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_cover_the_buffer_in_order(len in 0usize..5000, size in 1usize..70, width in 1usize..9) {
            let mut end = 0;
            for index in 0..size {
                let part = part(index, size, len, width);
                prop_assert_eq!(part.start, end);
                prop_assert!(part.len() <= len.div_ceil(size) * width);
                end = part.end;
            }
            prop_assert_eq!(end, len * width);
        }

        // What a rank sends in a step is what its next one expects in that step, and, after the first step, what it
        // has received in the step before.
        #[test]
        fn neighbours_agree(len in 0usize..200, size in 2usize..9, root in 0usize..9) {
            let root = root % size;
            for rank in 0..size {
                let place = Place { rank, size };
                let next = Place { rank: place.next(), size };
                prop_assert_eq!(next.previous(), rank);
                for make in [reduce_scatter, all_gather, all_reduce] {
                    let (ours, theirs) = (make(place, len, 4), make(next, len, 4));
                    for (a, b) in ours.iter().zip(&theirs) {
                        prop_assert_eq!(&a.send, &b.receive);
                    }
                    for pair in ours.windows(2) {
                        prop_assert_eq!(&pair[0].receive, &pair[1].send);
                    }
                }
                let sent: usize = broadcast(place, root, len).iter().map(|step| step.send.len()).sum();
                let received: usize = broadcast(next, root, len).iter().map(|step| step.receive.len()).sum();
                prop_assert_eq!(sent, received);
            }
        }

        // 2·(N − 1)/N of the buffer, rounded up to whole parts.
        #[test]
        fn an_all_reduce_sends_no_more_than_it_must(parts in 0usize..50, size in 2usize..9) {
            let steps = all_reduce(Place { rank: 0, size }, parts * size, 4);
            let sent: usize = steps.iter().map(|step| step.send.len()).sum();
            prop_assert_eq!(sent, 2 * (size - 1) * parts * 4);
        }
    }

    #[test]
    fn parts_are_summed_from_the_rank_after_their_owner() {
        // Part 0 of three: rank 1 sends it to 2, which adds and sends it to 0, which adds.
        let at = |rank| reduce_scatter(Place { rank, size: 3 }, 3, 1);
        assert_eq!(at(1)[0].send, 0..1);
        assert_eq!((at(2)[0].receive.clone(), at(2)[1].send.clone()), (0..1, 0..1));
        assert_eq!(at(0)[1].receive, 0..1);
    }
}
