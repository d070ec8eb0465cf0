//! Who uses which page: reference counts, free pages, and pages kept for those who may come.

use std::collections::BTreeMap;

use super::PageId;
use super::prefix::PrefixTree;

#[derive(Clone, Copy, Debug, Default)]
struct State {
    users: u32,
    /// When it was last given up, while nobody uses it.
    stamp: u64,
}

/// A fixed number of pages.
///
/// A page that nobody uses any more but that is in the tree stays there until its memory is needed; then the one that
/// was used least recently goes first. Pages of a sequence are given up from the last to the first, so that a page is
/// always older than the one before it: what goes first has no pages after it.
#[derive(Debug)]
pub(crate) struct Pages {
    states: Vec<State>,
    free: Vec<PageId>,
    /// Unused pages of the tree by age.
    kept: BTreeMap<u64, PageId>,
    clock: u64,
    pub(super) tree: PrefixTree,
}

impl Pages {
    pub(super) fn new(count: usize) -> Self {
        Self {
            states: vec![State::default(); count],
            free: (0..count as PageId).rev().collect(),
            kept: BTreeMap::new(),
            clock: 0,
            tree: PrefixTree::new(count),
        }
    }

    /// Pages that can be had now.
    pub(super) fn available(&self) -> usize {
        self.free.len() + self.kept.len()
    }

    /// A page for one user: a free one, or the oldest that is kept.
    pub(super) fn allocate(&mut self) -> Option<PageId> {
        let page = self.free.pop().or_else(|| {
            let (_, page) = self.kept.pop_first()?;
            self.tree.remove(page);
            Some(page)
        })?;
        self.states[page as usize].users = 1;
        Some(page)
    }

    /// One user more.
    pub(super) fn retain(&mut self, page: PageId) {
        let state = &mut self.states[page as usize];
        if state.users == 0 {
            self.kept.remove(&state.stamp);
        }
        state.users += 1;
    }

    /// One user less.
    pub(super) fn release(&mut self, page: PageId) {
        let state = &mut self.states[page as usize];
        debug_assert!(state.users > 0, "page {page} is given up once too often");
        state.users = state.users.saturating_sub(1);
        if state.users > 0 {
            return;
        }
        if self.tree.contains(page) {
            self.clock += 1;
            state.stamp = self.clock;
            self.kept.insert(self.clock, page);
        } else {
            self.free.push(page);
        }
    }

    /// How many use a page.
    #[cfg(test)]
    pub(super) fn users(&self, page: PageId) -> u32 {
        self.states[page as usize].users
    }
}
