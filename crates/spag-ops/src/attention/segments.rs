//! Segments of a packed batch: which rows the queries of a sequence see.

use std::ops::Range;

use candle_core::{Result, bail};

/// Consecutive rows of a packed batch that follow their ancestors' rows. A sequence that shares no rows is one segment
/// without ancestors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Its own rows: the queries, and the last keys.
    pub(super) rows: Range<usize>,
    /// The rows that precede them in their sequences, in order.
    pub(super) ancestors: Vec<Range<usize>>,
    /// Number of ancestor rows: the position of the first query.
    pub(super) depth: usize,
    /// The row of the first ancestor's copy, if each segment has copies of its ancestors' rows.
    pub(super) copies: usize,
    /// The segments that follow it, directly or indirectly.
    pub(super) descendants: Range<usize>,
}

impl Segment {
    /// Number of keys: the ancestors' rows and its own.
    pub(super) fn keys(&self) -> usize {
        self.depth + self.rows.len()
    }

    /// The row of the query at a sequence position.
    pub(super) fn row(&self, position: usize) -> usize {
        self.rows.start + position - self.depth
    }

    /// The row ranges of all keys, in order.
    pub(super) fn path(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ancestors.iter().chain([&self.rows]).cloned()
    }

    /// Gathers the keys' rows of one head into `to`, unless they are already contiguous: returns the first row and the row
    /// stride. The head has `width` elements from `column` on in rows of `row` elements.
    ///
    /// # Safety
    /// All rows must be inside `from`, and [`Segment::gathered`] elements of `to` be writable.
    pub(super) unsafe fn head_rows<T: Copy>(
        &self,
        from: &[T],
        (row, column, width): (usize, usize, usize),
        to: *mut T,
    ) -> (*const T, usize) {
        if self.ancestors.is_empty() {
            return (from[self.rows.start * row + column..].as_ptr(), row);
        }
        for (index, at) in self.path().flatten().enumerate() {
            let head = &from[at * row + column..][..width];
            // SAFETY: guaranteed by the caller.
            unsafe { std::ptr::copy_nonoverlapping(head.as_ptr(), to.add(index * width), width) }
        }
        (to, width)
    }

    /// Elements that [`Segment::head_rows`] writes for a head of this width.
    pub(super) fn gathered(&self, width: usize) -> usize {
        if self.ancestors.is_empty() { 0 } else { self.keys() * width }
    }
}

/// The segments with these bounds and parents, in depth-first order: each child and its descendants follow their parent.
///
/// # Errors
/// Bounds that do not increase from 0, a wrong number of parents, or another order.
pub(super) fn segments(bounds: &[u32], parents: &[Option<u32>]) -> Result<Vec<Segment>> {
    if bounds.first() != Some(&0) || !bounds.is_sorted() {
        bail!("attention: sequence bounds must increase from 0");
    }
    if parents.len() + 1 != bounds.len() {
        bail!("attention: {} parents for {} segments", parents.len(), bounds.len() - 1);
    }
    let mut all: Vec<Segment> = Vec::with_capacity(parents.len());
    // The segments from a root to the last one.
    let mut path: Vec<usize> = Vec::new();
    let mut copies = 0;
    for (index, (bound, parent)) in bounds.windows(2).zip(parents).enumerate() {
        let (mut ancestors, mut depth) = (Vec::new(), 0);
        match parent.map(|parent| path.iter().position(|on_path| *on_path == parent as usize)) {
            None => path.clear(),
            Some(Some(at)) => {
                path.truncate(at + 1);
                let parent = &all[path[at]];
                (ancestors, depth) = (parent.ancestors.clone(), parent.keys());
                match ancestors.last_mut().filter(|last: &&mut Range<usize>| last.end == parent.rows.start) {
                    Some(last) => last.end = parent.rows.end,
                    None => ancestors.push(parent.rows.clone()),
                }
            }
            Some(None) => bail!("attention: segment {index} does not follow its parent in depth-first order"),
        }
        path.iter().for_each(|on_path| all[*on_path].descendants.end = index + 1);
        path.push(index);
        let rows = bound[0] as usize..bound[1] as usize;
        all.push(Segment { rows, ancestors, depth, copies, descendants: index + 1..index + 1 });
        copies += depth;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_know_their_ancestors_and_descendants() {
        // 0: rows 0..3, with children 1 (3..5) and 3 (6..10); 2 (5..6) follows 1; 4 is a separate tree.
        let all = segments(&[0, 3, 5, 6, 10, 12], &[None, Some(0), Some(1), Some(0), None]).unwrap();
        let of = |index: usize| (all[index].ancestors.clone(), all[index].depth, all[index].copies);
        assert_eq!(of(0), (vec![], 0, 0));
        assert_eq!(of(1), (vec![0..3], 3, 0));
        assert_eq!(of(2), (vec![0..5], 5, 3));
        assert_eq!(of(3), (vec![0..3], 3, 8));
        assert_eq!(of(4), (vec![], 0, 11));
        let descendants: Vec<_> = all.iter().map(|segment| segment.descendants.clone()).collect();
        assert_eq!(descendants, [1..4, 2..3, 3..3, 4..4, 5..5]);
        assert_eq!(all[3].path().collect::<Vec<_>>(), [0..3, 6..10]);
        assert_eq!((all[3].row(3), all[3].keys()), (6, 7));
    }

    #[test]
    fn parents_come_in_depth_first_order() {
        for parents in [&[None, Some(1)][..], &[Some(0), None], &[None, None, Some(0)], &[None]] {
            let bounds: Vec<u32> = (0..=parents.len().max(2) as u32).collect();
            assert!(segments(&bounds, parents).is_err(), "{parents:?}");
        }
    }
}
