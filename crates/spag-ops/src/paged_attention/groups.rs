//! Tasks of CPU attention: groups of rows, and their page read order.

use std::ops::Range;

use super::Span;
use crate::product::{Output, ROWS};

/// A row of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    /// One past the last key it attends to.
    pub(super) seen: usize,
    pages: &'a [u32],
}

/// Up to [`ROWS`] consecutive rows of the batch, at least one.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) first: usize,
    pub(super) rows: Vec<Row<'a>>,
    /// Number of leading pages shared by all rows. Rows of a prompt share all pages of the last row.
    pub(super) common: usize,
}

/// A page that is read once for some rows of a group.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) page: u32,
    /// Its index in the pages of these rows.
    pub(super) index: usize,
    /// Rows of the group.
    pub(super) rows: Range<usize>,
    /// One past the last key that any of them attends to.
    pub(super) seen: usize,
    /// Whether the page's contribution overwrites the output of these rows or continues its sums.
    pub(super) output: Output,
}

/// Groups the rows of each prompt, and adjacent decoding rows with a common prefix. Pages have `size` tokens.
pub(super) fn groups<'a>(spans: &[Span<'a>], size: usize) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut is_decoding = false;
    for span in spans.iter().filter(|span| !span.rows.is_empty()) {
        let row = |at: usize| {
            let seen = span.position + at + 1;
            Row { seen, pages: &span.pages[..seen.div_ceil(size)] }
        };
        if span.rows.len() == 1 {
            let joined = is_decoding && groups.last_mut().is_some_and(|group| group.joins(row(0), size));
            if !joined {
                // Full pages only: every row attends to all of a shared page.
                groups.push(Group { first: span.rows.start, rows: vec![row(0)], common: row(0).seen / size });
            }
            is_decoding = true;
            continue;
        }
        is_decoding = false;
        for first in (0..span.rows.len()).step_by(ROWS) {
            let rows: Vec<Row<'_>> = (first..span.rows.len().min(first + ROWS)).map(row).collect();
            let common = rows.last().map_or(0, |row| row.pages.len());
            groups.push(Group { first: span.rows.start + first, rows, common });
        }
    }
    groups
}

impl<'a> Group<'a> {
    /// Adds a decoding row if that reduces page reads. Returns whether it was added.
    fn joins(&mut self, row: Row<'a>, size: usize) -> bool {
        let shared = self.rows[0].pages.iter().zip(row.pages).take_while(|(a, b)| a == b).count();
        let common = shared.min(self.common).min(row.seen / size);
        let joins = self.rows.len() < ROWS && self.rows.len() * (self.common - common) < self.common;
        if joins {
            self.rows.push(row);
            self.common = common;
        }
        joins
    }

    /// One past the last key that any row attends to.
    pub(super) fn seen(&self) -> usize {
        self.rows.iter().map(|row| row.seen).max().unwrap_or(0)
    }

    /// The pages read for all rows together. `first` is the first page in which a row sees a key.
    pub(super) fn shared(&self, first: impl Fn(&Row<'a>) -> usize) -> Range<usize> {
        self.rows.iter().map(first).min().unwrap_or(0).min(self.common)..self.common
    }

    /// The first page read.
    pub(super) fn first_read(&self, first: impl Fn(&Row<'a>) -> usize) -> Option<u32> {
        let (row, shared) = (self.rows.first()?, self.shared(&first));
        row.pages.get(if shared.is_empty() { first(row) } else { shared.start }).copied()
    }

    /// All page reads in order: those [shared](Self::shared) by all rows, then each row's own.
    pub(super) fn reads(&self, shared: &Range<usize>, first: impl Fn(&Row<'a>) -> usize) -> Vec<Read> {
        let initial = if shared.is_empty() { Output::Overwrite } else { Output::Continue };
        let longest = self.rows.last().map_or(&[][..], |row| row.pages);
        let rows = (0..self.rows.len(), self.seen());
        let mut all: Vec<Read> = reads(longest, shared.clone(), rows, Output::Overwrite).collect();
        for (i, row) in self.rows.iter().enumerate() {
            let own = first(row).max(self.common)..row.pages.len();
            all.extend(reads(row.pages, own, (i..i + 1, row.seen), initial));
        }
        all
    }

    /// The pages of one row, from the page `first`.
    pub(super) fn reads_of_row(&self, row: usize, first: usize) -> impl Iterator<Item = Read> {
        let Row { seen, pages } = self.rows[row];
        reads(pages, first..pages.len(), (row..row + 1, seen), Output::Overwrite)
    }
}

/// Reads of the pages `range` of `pages` for `rows` that see keys below `seen`. The first read uses `output`.
fn reads(
    pages: &[u32],
    range: Range<usize>,
    (rows, seen): (Range<usize>, usize),
    output: Output,
) -> impl Iterator<Item = Read> {
    let begin = range.start;
    range.map(move |index| {
        let output = if index == begin { output } else { Output::Continue };
        Read { page: pages[index], index, rows: rows.clone(), seen, output }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: usize = 4;

    fn decoding(tables: &[Vec<u32>]) -> Vec<Span<'_>> {
        let span = |(row, pages)| Span { rows: row..row + 1, position: Vec::len(pages) * SIZE - 1, pages };
        tables.iter().enumerate().map(span).collect()
    }

    #[test]
    fn decoding_rows_with_a_common_prefix_are_grouped() {
        let tables = [vec![1, 2, 3], vec![1, 2, 4], vec![1, 5], vec![6, 7, 8], vec![6, 7, 9], vec![10]];
        let groups = groups(&decoding(&tables), SIZE);
        let found: Vec<(usize, usize, usize)> = groups.iter().map(|g| (g.first, g.rows.len(), g.common)).collect();
        // With [1, 5], the first two rows would read page 2 twice: one page less and one more.
        assert_eq!(found, [(0, 2, 2), (2, 1, 2), (3, 2, 2), (5, 1, 1)]);
    }

    proptest! {
        #[test]
        fn every_row_reads_its_pages_in_order(
            prompt in 1..40usize,
            cached in 0..30usize,
            rows in prop::collection::vec((0..3u32, 0..12usize, 1..20usize), 1..20),
            window in 0..4usize,
        ) {
            let tables: Vec<Vec<u32>> = rows
                .iter()
                .enumerate()
                .map(|(row, (prefix, shared, own))| {
                    let own = (0..*own as u32).map(|page| 1000 * (row as u32 + 1) + page);
                    (0..*shared as u32).map(|page| 20 * prefix + page).chain(own).collect()
                })
                .collect();
            let pages: Vec<u32> = (500..).take((cached + prompt).div_ceil(SIZE)).collect();
            let mut spans = decoding(&tables);
            spans.push(Span { rows: tables.len()..tables.len() + prompt, position: cached, pages: &pages });
            let first = |row: &Row<'_>| ((row.seen - 1) / SIZE).saturating_sub(window);
            let mut next = 0;
            for group in groups(&spans, SIZE) {
                prop_assert_eq!(group.first, next);
                next += group.rows.len();
                let reads = group.reads(&group.shared(first), first);
                prop_assert_eq!(reads.first().map(|read| read.page), group.first_read(first));
                for (i, row) in group.rows.iter().enumerate() {
                    let of_row: Vec<&Read> = reads.iter().filter(|read| read.rows.contains(&i)).collect();
                    let indices: Vec<usize> = of_row.iter().map(|read| read.index).collect();
                    // Pages that only other rows see add zeros.
                    prop_assert!(indices.windows(2).all(|pair| pair[0] < pair[1]));
                    prop_assert!((first(row)..row.pages.len()).all(|index| indices.contains(&index)));
                    for (k, read) in of_row.iter().enumerate() {
                        prop_assert_eq!(read.output == Output::Overwrite, k == 0);
                        prop_assert!(row.pages.get(read.index).is_none_or(|page| *page == read.page));
                    }
                }
            }
            prop_assert_eq!(next, tables.len() + prompt);
        }
    }
}
