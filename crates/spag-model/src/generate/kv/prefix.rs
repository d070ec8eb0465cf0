//! Prefix tree: finds pages by their tokens.
//!
//! A node is a page; its path from the root spells the tokens of a sequence. Tokens are compared rather than hashed, so
//! different texts never collide.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use super::{PageId, PrefixRoot};

/// The parent of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parent {
    /// None: the page holds the first tokens of sequences.
    Root(PrefixRoot),
    /// Another page.
    Page(PageId),
}

#[derive(Debug)]
struct Node {
    parent: Parent,
    tokens: Box<[u32]>,
    /// Whether the page's contents are computed and may be copied.
    ready: bool,
    children: Children,
}

/// Pages by their tokens in lexicographic order, so that the longest common prefix is at an adjacent entry.
type Children = BTreeMap<Box<[u32]>, PageId>;

/// The prefix tree.
#[derive(Debug, Default)]
pub(super) struct PrefixTree {
    roots: HashMap<PrefixRoot, Children>,
    /// Nodes by page.
    nodes: Vec<Option<Node>>,
}

impl PrefixTree {
    /// An empty tree for `pages` pages.
    pub(super) fn new(pages: usize) -> Self {
        Self { roots: HashMap::new(), nodes: std::iter::repeat_with(|| None).take(pages).collect() }
    }

    fn node(&self, page: PageId) -> Option<&Node> {
        self.nodes.get(page as usize).and_then(Option::as_ref)
    }

    fn children(&self, parent: Parent) -> Option<&Children> {
        match parent {
            Parent::Root(root) => self.roots.get(&root),
            Parent::Page(page) => self.node(page).map(|node| &node.children),
        }
    }

    fn children_mut(&mut self, parent: Parent) -> Option<&mut Children> {
        match parent {
            Parent::Root(root) => Some(self.roots.entry(root).or_default()),
            Parent::Page(page) => {
                self.nodes.get_mut(page as usize).and_then(Option::as_mut).map(|node| &mut node.children)
            }
        }
    }

    pub(super) fn contains(&self, page: PageId) -> bool {
        self.node(page).is_some()
    }

    /// The child of `parent` with exactly these tokens.
    pub(super) fn child(&self, parent: Parent, tokens: &[u32]) -> Option<PageId> {
        self.children(parent)?.get(tokens).copied()
    }

    /// The ready child of `parent` with the longest prefix in common with `tokens`, and its length.
    pub(super) fn longest(&self, parent: Parent, tokens: &[u32]) -> Option<(PageId, usize)> {
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

    /// Inserts a page, or returns the existing page with the same tokens.
    ///
    /// Returns `None` if the parent is not in the tree; the page is then not inserted.
    pub(super) fn insert(&mut self, parent: Parent, tokens: &[u32], page: PageId) -> Option<PageId> {
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

    /// Marks a page's contents as computed.
    pub(super) fn set_ready(&mut self, page: PageId) {
        if let Some(node) = self.nodes.get_mut(page as usize).and_then(Option::as_mut) {
            node.ready = true;
        }
    }

    /// Removes a page without children.
    pub(super) fn remove(&mut self, page: PageId) {
        let Some(node) = self.nodes.get_mut(page as usize).and_then(Option::take) else { return };
        debug_assert!(node.children.is_empty(), "page {page} has children");
        if let Some(children) = self.children_mut(node.parent) {
            children.remove(&node.tokens);
        }
        if let Parent::Root(root) = node.parent
            && self.roots.get(&root).is_some_and(Children::is_empty)
        {
            self.roots.remove(&root);
        }
    }
}
