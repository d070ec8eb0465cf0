//! Which pages hold which tokens: a tree of pages by content.
//!
//! A node is a page; its path from the root spells the tokens of a sequence, page by page. Tokens are compared, not
//! hashes of them, so that no two texts are ever taken for one another.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::PageId;

#[derive(Debug)]
struct Node {
    parent: Option<PageId>,
    tokens: Box<[u32]>,
    /// Whether its keys and values have been computed, or will be by the forward pass that is being planned.
    ready: bool,
    children: Children,
}

/// Pages by their tokens, in lexicographic order: those with the longest beginning in common are neighbours.
type Children = BTreeMap<Box<[u32]>, PageId>;

/// The tree.
#[derive(Debug, Default)]
pub(super) struct PrefixTree {
    roots: Children,
    /// By page.
    nodes: Vec<Option<Node>>,
}

impl PrefixTree {
    /// For pages 0 to `pages`.
    pub(super) fn new(pages: usize) -> Self {
        Self { roots: Children::new(), nodes: std::iter::repeat_with(|| None).take(pages).collect() }
    }

    fn node(&self, page: PageId) -> Option<&Node> {
        self.nodes.get(page as usize).and_then(Option::as_ref)
    }

    fn children(&self, parent: Option<PageId>) -> Option<&Children> {
        match parent {
            None => Some(&self.roots),
            Some(page) => self.node(page).map(|node| &node.children),
        }
    }

    fn children_mut(&mut self, parent: Option<PageId>) -> Option<&mut Children> {
        match parent {
            None => Some(&mut self.roots),
            Some(page) => self.nodes.get_mut(page as usize).and_then(Option::as_mut).map(|node| &mut node.children),
        }
    }

    pub(super) fn contains(&self, page: PageId) -> bool {
        self.node(page).is_some()
    }

    /// The page after `parent` with exactly these tokens.
    pub(super) fn child(&self, parent: Option<PageId>, tokens: &[u32]) -> Option<PageId> {
        self.children(parent)?.get(tokens).copied()
    }

    /// The computed page after `parent` that begins with the most of `tokens`, and how many.
    pub(super) fn longest(&self, parent: Option<PageId>, tokens: &[u32]) -> Option<(PageId, usize)> {
        let children = self.children(parent)?;
        let before = children.range::<[u32], _>((Bound::Unbounded, Bound::Included(tokens))).next_back();
        let after = children.range::<[u32], _>((Bound::Excluded(tokens), Bound::Unbounded)).next();
        let common = |key: &[u32]| key.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        [before, after]
            .into_iter()
            .flatten()
            .filter(|(_, page)| self.node(**page).is_some_and(|node| node.ready))
            .map(|(key, page)| (*page, common(key)))
            .filter(|(_, common)| *common > 0)
            .max_by_key(|(_, common)| *common)
    }

    /// Puts a page into the tree; or returns the one that is there with the same tokens already.
    ///
    /// A parent that is not in the tree has no children: the page stays outside, and `None` says so.
    pub(super) fn insert(&mut self, parent: Option<PageId>, tokens: &[u32], page: PageId) -> Option<PageId> {
        let children = self.children_mut(parent)?;
        if let Some(other) = children.get(tokens) {
            return Some(*other);
        }
        children.insert(tokens.into(), page);
        let node = Node { parent, tokens: tokens.into(), ready: false, children: Children::new() };
        if let Some(place) = self.nodes.get_mut(page as usize) {
            *place = Some(node);
        }
        Some(page)
    }

    /// From now on the page's contents may be copied.
    pub(super) fn set_ready(&mut self, page: PageId) {
        if let Some(node) = self.nodes.get_mut(page as usize).and_then(Option::as_mut) {
            node.ready = true;
        }
    }

    /// Takes a page without children out.
    pub(super) fn remove(&mut self, page: PageId) {
        let Some(node) = self.nodes.get_mut(page as usize).and_then(Option::take) else { return };
        debug_assert!(node.children.is_empty(), "page {page} has pages after it");
        if let Some(children) = self.children_mut(node.parent) {
            children.remove(&node.tokens);
        }
    }
}
