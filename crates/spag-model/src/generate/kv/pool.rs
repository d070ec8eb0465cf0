//! The page pool: reference counts, free pages and LRU eviction.

use std::collections::BTreeMap;

use super::PageId;
use super::prefix::PrefixTree;

#[derive(Clone, Copy, Debug, Default)]
struct PageState {
    ref_count: u32,
    /// Time of the last release; valid if `ref_count` is 0.
    last_used: u64,
}

/// A fixed number of reference-counted pages.
///
/// Unreferenced pages stay in the prefix tree until evicted, least recently used first. A sequence's pages are released
/// from last to first, so that a page is always evicted before its parent: only leaves are evicted.
#[derive(Debug)]
pub(crate) struct PagePool {
    states: Vec<PageState>,
    free: Vec<PageId>,
    /// Unreferenced pages of the tree, by time of release.
    evictable: BTreeMap<u64, PageId>,
    clock: u64,
    pub(super) tree: PrefixTree,
}

impl PagePool {
    pub(super) fn new(count: usize) -> Self {
        Self {
            states: vec![PageState::default(); count],
            free: (0..count as PageId).rev().collect(),
            evictable: BTreeMap::new(),
            clock: 0,
            tree: PrefixTree::new(count),
        }
    }

    /// Number of pages.
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    /// Number of free and evictable pages.
    pub(super) fn available(&self) -> usize {
        self.free.len() + self.evictable.len()
    }

    /// Allocates a free page, or evicts the least recently used one.
    pub(super) fn allocate(&mut self) -> Option<PageId> {
        let page = self.free.pop().or_else(|| {
            let (_, page) = self.evictable.pop_first()?;
            self.tree.remove(page);
            Some(page)
        })?;
        self.states[page as usize].ref_count = 1;
        Some(page)
    }

    /// Adds a reference.
    pub(super) fn retain(&mut self, page: PageId) {
        let state = &mut self.states[page as usize];
        if state.ref_count == 0 {
            self.evictable.remove(&state.last_used);
        }
        state.ref_count += 1;
    }

    /// Drops a reference.
    pub(super) fn release(&mut self, page: PageId) {
        let state = &mut self.states[page as usize];
        debug_assert!(state.ref_count > 0, "page {page} is released too often");
        state.ref_count = state.ref_count.saturating_sub(1);
        if state.ref_count > 0 {
            return;
        }
        if self.tree.contains(page) {
            self.clock += 1;
            state.last_used = self.clock;
            self.evictable.insert(self.clock, page);
        } else {
            self.free.push(page);
        }
    }

    /// Number of references to a page.
    #[cfg(test)]
    pub(super) fn ref_count(&self, page: PageId) -> u32 {
        self.states[page as usize].ref_count
    }
}
