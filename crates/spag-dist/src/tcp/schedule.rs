//! The steps of ring collectives: which part of a buffer is sent and received when.
//!
//! Legend: N ranks, rank r sends to r + 1 and receives from r − 1 (modulo N). In a reduce-scatter, part p starts at
//! rank p + 1, every rank adds its own values, and the sum reaches rank p after N − 1 steps; in an all-gather it starts
//! at rank p and is copied. A step sends what the previous step has received, so it can begin before that step has
//! ended.

use std::ops::Range;

/// How a step applies received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnReceive {
    /// Adds them to the buffer.
    Add,
    /// Writes them to the buffer.
    Replace,
}

/// The byte ranges of the buffer that one step sends and receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) send: Range<usize>,
    pub(crate) receive: Range<usize>,
    pub(crate) on_receive: OnReceive,
}

/// Every step but the first sends what the previous one has received.
pub(crate) type Schedule = Vec<Step>;

/// A rank's position in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingPosition {
    pub(crate) rank: usize,
    pub(crate) size: usize,
}

impl RingPosition {
    /// The rank `places` before this one; at most `2 · size`.
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

/// The bytes of part `part` of `size`, of `len` elements of `width` bytes. Parts have ⌈len / size⌉ elements; the last
/// ones may have fewer.
pub(crate) fn part(part: usize, size: usize, len: usize, width: usize) -> Range<usize> {
    let elements = len.div_ceil(size.max(1));
    (part * elements).min(len) * width..((part + 1) * elements).min(len) * width
}

/// Rank r ends up with the sum of part r.
pub(crate) fn reduce_scatter(position: RingPosition, len: usize, width: usize) -> Schedule {
    let part = |owner| part(owner, position.size, len, width);
    let step = |step: usize| Step {
        send: part(position.back(step + 1)),
        receive: part(position.back(step + 2)),
        on_receive: OnReceive::Add,
    };
    (0..position.size - 1).map(step).collect()
}

/// Every rank ends up with all parts.
pub(crate) fn all_gather(position: RingPosition, len: usize, width: usize) -> Schedule {
    let part = |owner| part(owner, position.size, len, width);
    let step = |step: usize| Step {
        send: part(position.back(step)),
        receive: part(position.back(step + 1)),
        on_receive: OnReceive::Replace,
    };
    (0..position.size - 1).map(step).collect()
}

/// Every rank ends up with the sum of all parts.
pub(crate) fn all_reduce(position: RingPosition, len: usize, width: usize) -> Schedule {
    let mut steps = reduce_scatter(position, len, width);
    steps.extend(all_gather(position, len, width));
    steps
}

/// Every rank ends up with the root's `bytes`.
pub(crate) fn broadcast(position: RingPosition, root: usize, bytes: usize) -> Schedule {
    let (none, all) = (0..0, 0..bytes);
    let receive = Step { send: none.clone(), receive: all.clone(), on_receive: OnReceive::Replace };
    let send = Step { send: all, receive: none, on_receive: OnReceive::Replace };
    if position.rank == root {
        vec![send]
    } else if position.next() == root {
        vec![receive]
    } else {
        vec![receive, send]
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

        #[test]
        fn send_ranges_match_the_neighbours_receive_ranges(len in 0usize..200, size in 2usize..9, root in 0usize..9) {
            let root = root % size;
            for rank in 0..size {
                let position = RingPosition { rank, size };
                let next = RingPosition { rank: position.next(), size };
                prop_assert_eq!(next.previous(), rank);
                for make in [reduce_scatter, all_gather, all_reduce] {
                    let (ours, theirs) = (make(position, len, 4), make(next, len, 4));
                    for (a, b) in ours.iter().zip(&theirs) {
                        prop_assert_eq!(&a.send, &b.receive);
                    }
                    for pair in ours.windows(2) {
                        prop_assert_eq!(&pair[0].receive, &pair[1].send);
                    }
                }
                let sent: usize = broadcast(position, root, len).iter().map(|step| step.send.len()).sum();
                let received: usize = broadcast(next, root, len).iter().map(|step| step.receive.len()).sum();
                prop_assert_eq!(sent, received);
            }
        }

        // 2·(N − 1)/N of the buffer.
        #[test]
        fn all_reduce_sends_the_minimum(parts in 0usize..50, size in 2usize..9) {
            let steps = all_reduce(RingPosition { rank: 0, size }, parts * size, 4);
            let sent: usize = steps.iter().map(|step| step.send.len()).sum();
            prop_assert_eq!(sent, 2 * (size - 1) * parts * 4);
        }
    }

    #[test]
    fn reduce_scatter_starts_after_the_owner_of_a_part() {
        // Part 0 of three: rank 1 sends it to 2, which adds and sends it to 0, which adds.
        let at = |rank| reduce_scatter(RingPosition { rank, size: 3 }, 3, 1);
        assert_eq!(at(1)[0].send, 0..1);
        assert_eq!((at(2)[0].receive.clone(), at(2)[1].send.clone()), (0..1, 0..1));
        assert_eq!(at(0)[1].receive, 0..1);
    }
}
