//! Prefix trees of token sequences (tree packing).

use std::ops::Range;

use super::{PackedBatch, Rows};

/// Tokens shared by the same sequences.
#[derive(Debug)]
struct Node {
    /// A sequence that contains them, and their range in it.
    sequence: usize,
    tokens: Range<usize>,
    children: Vec<usize>,
}

/// A tree whose root paths spell the sequences' prefixes. Roots and children are in sequence order.
#[derive(Debug, Default)]
struct PrefixTree {
    nodes: Vec<Node>,
    roots: Vec<usize>,
}

impl PrefixTree {
    fn new(sequences: &[&[u32]]) -> Self {
        let mut tree = Self::default();
        for index in 0..sequences.len() {
            tree.insert(sequences, index);
        }
        tree
    }

    fn children(&mut self, node: Option<usize>) -> &mut Vec<usize> {
        match node {
            Some(node) => &mut self.nodes[node].children,
            None => &mut self.roots,
        }
    }

    /// The child of `node`, or the root, that starts with a token: its node index and its position among the
    /// siblings.
    fn find(&self, sequences: &[&[u32]], node: Option<usize>, token: u32) -> Option<(usize, usize)> {
        let children = node.map_or(&self.roots, |node| &self.nodes[node].children);
        let begins = |child: &usize| {
            let Node { sequence, tokens, .. } = &self.nodes[*child];
            sequences[*sequence][tokens.start] == token
        };
        children.iter().position(begins).map(|place| (children[place], place))
    }

    /// Adds the missing nodes of a sequence.
    fn insert(&mut self, sequences: &[&[u32]], index: usize) {
        let own = sequences[index];
        let (mut node, mut at) = (None, 0);
        while at < own.len() {
            let Some((child, place)) = self.find(sequences, node, own[at]) else {
                let leaf = Node { sequence: index, tokens: at..own.len(), children: Vec::new() };
                let new = self.push(leaf);
                self.children(node).push(new);
                return;
            };
            let Node { sequence, tokens, .. } = &self.nodes[child];
            let (sequence, tokens) = (*sequence, tokens.clone());
            let others = &sequences[sequence][tokens.clone()];
            let common = own[at..].iter().zip(others).take_while(|(own, other)| own == other).count();
            at += common;
            if common < others.len() && at < own.len() {
                // The sequences diverge inside the child.
                let middle = tokens.start + common;
                let upper = self.push(Node { sequence, tokens: tokens.start..middle, children: vec![child] });
                self.nodes[child].tokens = middle..tokens.end;
                self.children(node)[place] = upper;
                node = Some(upper);
            } else if at < own.len() && self.nodes[child].children.is_empty() {
                self.nodes[child] = Node { sequence: index, tokens: tokens.start..own.len(), children: Vec::new() };
                return;
            } else {
                node = Some(child);
            }
        }
    }

    fn push(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The nodes as segments in depth-first order, and the row of each token of each sequence.
    fn pack(&self, sequences: &[&[u32]]) -> (PackedBatch, Vec<Vec<u32>>) {
        let mut packed = PackedBatch { bounds: vec![0], ..PackedBatch::default() };
        let mut first_rows = vec![0; self.nodes.len()];
        let mut open: Vec<(usize, Option<u32>)> = self.roots.iter().rev().map(|root| (*root, None)).collect();
        while let Some((index, parent)) = open.pop() {
            let Node { sequence, tokens, children } = &self.nodes[index];
            first_rows[index] = packed.ids.len() as u32;
            packed.ids.extend_from_slice(&sequences[*sequence][tokens.clone()]);
            packed.positions.extend(tokens.start as u32..tokens.end as u32);
            packed.bounds.push(packed.ids.len() as u32);
            let segment = packed.parents.len() as u32;
            packed.parents.push(parent);
            open.extend(children.iter().rev().map(|child| (*child, Some(segment))));
        }
        let rows = sequences.iter().map(|sequence| self.rows(sequences, &first_rows, sequence)).collect();
        if packed.len() < sequences.iter().map(|sequence| sequence.len()).sum() {
            packed.rows = Rows::Merged;
        }
        (packed, rows)
    }

    fn rows(&self, sequences: &[&[u32]], first_rows: &[u32], sequence: &[u32]) -> Vec<u32> {
        let (mut rows, mut node) = (Vec::with_capacity(sequence.len()), None);
        while let Some(token) = sequence.get(rows.len()) {
            let Some((child, _)) = self.find(sequences, node, *token) else { break };
            let len = self.nodes[child].tokens.len().min(sequence.len() - rows.len());
            rows.extend(first_rows[child]..first_rows[child] + len as u32);
            node = Some(child);
        }
        rows
    }
}

impl PackedBatch {
    /// Merges shared prefixes: equal tokens after equal tokens become one row. A segment ends where sequences diverge. Also
    /// returns the row of each token of each sequence. Each row is bit-identical to that of an unpacked sequence.
    pub fn tree<'a>(sequences: impl IntoIterator<Item = &'a [u32]>) -> (Self, Vec<Vec<u32>>) {
        let sequences: Vec<&[u32]> = sequences.into_iter().collect();
        PrefixTree::new(&sequences).pack(&sequences)
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn segments_end_where_sequences_part_only() {
        let sequences = [&[1u32, 2, 3, 4][..], &[1, 2, 3], &[], &[1, 2, 5], &[7], &[1, 2, 3, 4], &[1, 2, 5, 6, 7]];
        let (packed, rows) = PackedBatch::tree(sequences);
        assert_eq!(packed.ids, [1, 2, 3, 4, 5, 6, 7, 7]);
        assert_eq!(packed.positions, [0, 1, 2, 3, 2, 3, 4, 0]);
        // No segment ends at the 5, where the fourth sequence ends.
        assert_eq!(packed.bounds, [0, 2, 4, 7, 8]);
        assert_eq!(packed.parents, [None, Some(0), Some(0), None]);
        assert_eq!(rows[3], [0, 1, 4]);
        assert_eq!(rows[6], [0, 1, 4, 5, 6]);
        assert!(rows[2].is_empty());
    }

    #[test]
    fn sequences_that_begin_apart_are_packed_as_they_are() {
        let sequences = [&[3u32, 2][..], &[1, 2, 3], &[2]];
        assert_eq!(PackedBatch::tree(sequences).0, PackedBatch::new(sequences));
    }

    #[test]
    fn paths_spell_the_sequences() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..200 {
            let sequences: Vec<Vec<u32>> = (0..rng.random_range(0..12))
                .map(|_| (0..rng.random_range(0..9)).map(|_| rng.random_range(0..3)).collect())
                .collect();
            let (packed, rows) = PackedBatch::tree(sequences.iter().map(Vec::as_slice));
            let mut prefixes = std::collections::BTreeSet::new();
            for (sequence, rows) in sequences.iter().zip(&rows) {
                let ids: Vec<u32> = rows.iter().map(|row| packed.ids[*row as usize]).collect();
                assert_eq!(&ids, sequence);
                let positions = rows.iter().map(|row| packed.positions[*row as usize]);
                assert!(positions.eq(0..sequence.len() as u32));
                prefixes.extend((1..=sequence.len()).map(|end| sequence[..end].to_vec()));
            }
            assert_eq!(packed.len(), prefixes.len(), "a row for each prefix: {sequences:?}");
        }
    }
}
