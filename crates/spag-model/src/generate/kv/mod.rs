//! Paged KV cache with prefix sharing.

mod pool;
mod prefix;
#[cfg(test)]
mod tests;

use candle_core::{DType, Device, Tensor, WithDType};
use half::bf16;
use half::vec::HalfBitsVecExt;
use rayon::prelude::*;

use self::pool::PagePool;
use self::prefix::Parent;
use super::config::{EngineConfig, PrefixSharing};
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::model::LengthClass;
use spag_ops::kernels;
use spag_ops::kernels::SumOrder;
use spag_ops::paged_attention::{self, PageShape, Plan, Span};

/// Index of a page in every layer's tensors.
pub(crate) type PageId = u32;

/// The group of sequences that share prefixes: keys and values depend on all of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PrefixRoot {
    /// The adapter; 0 for none.
    pub(crate) adapter: u64,
    pub(crate) class: LengthClass,
}

/// A sequence's pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageTable {
    /// Its prefix-sharing group.
    pub(crate) root: PrefixRoot,
    /// Number of tokens whose keys and values are in the cache, or will be after the scheduled forward pass.
    pub(crate) computed: usize,
    /// Pages in order of position.
    pub(crate) pages: Vec<PageId>,
}

impl PageTable {
    /// The parent of the page at `index`.
    fn parent(&self, index: usize) -> Parent {
        let last = index.checked_sub(1).and_then(|last| self.pages.get(last));
        last.map_or(Parent::Root(self.root), |page| Parent::Page(*page))
    }
}

/// The KV cache of all layers.
pub(crate) struct KvCache {
    /// One tensor per layer, [pages, elements].
    pub(crate) keys: Vec<Tensor>,
    pub(crate) values: Vec<Tensor>,
    pub(crate) shape: PageShape,
    order: SumOrder,
    pool: PagePool,
    sharing: PrefixSharing,
    /// Pages that the scheduled forward pass completes.
    pending: Vec<PageId>,
}

impl KvCache {
    /// Allocates the cache on `device`, with keys and values of `dtype`.
    pub(crate) fn new(model: &ModelConfig, config: &EngineConfig, dtype: DType, device: &Device) -> Result<Self> {
        let shape = PageShape { tokens: config.page_size, heads: model.architecture.heads };
        let extents = (config.pages, shape.elements());
        let zeros = || match (device, dtype) {
            // Zeros of integers and floats are mapped on first use; bf16 zeros would be written.
            (Device::Cpu, DType::F32) => aligned(vec![0f32; padded::<f32>(extents)], extents),
            (Device::Cpu, DType::BF16) => {
                aligned::<bf16>(vec![0u16; padded::<bf16>(extents)].reinterpret_into(), extents)
            }
            _ => Tensor::zeros(extents, dtype, device),
        };
        let layers = || (0..model.architecture.num_hidden_layers).map(|_| zeros());
        Ok(Self {
            keys: layers().collect::<candle_core::Result<_>>()?,
            values: layers().collect::<candle_core::Result<_>>()?,
            shape,
            order: config.sum_order,
            pool: PagePool::new(config.pages),
            sharing: config.prefix_sharing,
            pending: Vec::new(),
        })
    }

    /// Clears all keys and values. No sequence may hold pages.
    pub(crate) fn clear(&mut self) {
        self.pool = PagePool::new(self.pool.len());
        self.pending.clear();
    }

    /// The attention plan of a forward pass of at least `padded` rows, shared by all layers.
    pub(crate) fn plan<'a>(&self, spans: &[Span<'a>], padded: usize) -> Result<Plan<'a>> {
        let Some(pages) = self.keys.first() else { return Err(Error::Config("a model needs a layer".into())) };
        Ok(Plan::padded(spans, padded, pages, (self.shape, self.order))?)
    }

    /// Number of pages for `tokens` tokens.
    pub(crate) fn pages_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.shape.tokens)
    }

    /// Number of pages that can be allocated.
    pub(crate) fn available(&self) -> usize {
        self.pool.available()
    }

    /// Maps the cached prefix of `tokens` into `table`: full pages, and a copy of a partial page. The last token is
    /// never matched, because its logits are needed. Returns the number of tokens found.
    pub(crate) fn match_prefix(&mut self, table: &mut PageTable, tokens: &[u32]) -> Result<usize> {
        let before = table.computed;
        self.match_full_pages(table, tokens);
        let (size, usable) = (self.shape.tokens, tokens.len().saturating_sub(1));
        let (start, index) = (table.computed, table.computed / size);
        // A page that the sequence has started to fill is kept.
        if self.sharing == PrefixSharing::On && start % size == 0 && table.pages.len() == index && start < usable {
            self.copy_partial_page(table, &tokens[start..(start + size).min(usable)])?;
        }
        Ok(table.computed - before)
    }

    /// [`KvCache::match_prefix`] for full pages only, without allocation.
    pub(crate) fn match_full_pages(&mut self, table: &mut PageTable, tokens: &[u32]) -> usize {
        let (size, before) = (self.shape.tokens, table.computed);
        while self.sharing == PrefixSharing::On {
            let index = table.computed / size;
            let (start, end) = (index * size, (index + 1) * size);
            let parent = table.parent(index);
            let Some(next) = tokens.get(start..end).filter(|_| end < tokens.len()) else { break };
            let Some(page) = self.pool.tree.child(parent, next) else { break };
            // Replaces a page that the sequence had started to fill.
            self.pool.retain(page);
            for begun in table.pages.drain(index..) {
                self.pool.release(begun);
            }
            table.pages.push(page);
            table.computed = end;
        }
        table.computed - before
    }

    /// Copy on write: copies the longest matching prefix of another page into a new page.
    fn copy_partial_page(&mut self, table: &mut PageTable, tokens: &[u32]) -> Result<()> {
        let parent = table.parent(table.pages.len());
        let Some((source, common)) = self.pool.tree.longest(parent, tokens) else { return Ok(()) };
        // Retained, so that allocation does not evict it.
        self.pool.retain(source);
        let copied = self.pool.allocate().map(|page| {
            let copy = |(keys, values): (&Tensor, &Tensor)| {
                paged_attention::copy(keys, values, source, page, common, self.shape)
            };
            // Kernels are launched from a single thread.
            match self.keys.first().map(|keys| kernels::of(keys.device())).transpose()?.flatten() {
                Some(_) => self.keys.iter().zip(&self.values).try_for_each(copy)?,
                None => self.keys.par_iter().zip(&self.values).try_for_each(copy)?,
            }
            table.pages.push(page);
            table.computed += common;
            Ok(())
        });
        self.pool.release(source);
        copied.unwrap_or(Ok(()))
    }

    /// Allocates pages for the first `tokens` tokens. Returns `false` if pages run out; pages already allocated are
    /// kept.
    pub(crate) fn allocate(&mut self, table: &mut PageTable, tokens: usize) -> bool {
        while table.pages.len() < self.pages_for(tokens) {
            match self.pool.allocate() {
                Some(page) => table.pages.push(page),
                None => return false,
            }
        }
        true
    }

    /// Records that the scheduled pass computes `tokens` up to `computed`. Pages that it fills can be shared
    /// immediately, because every layer writes all keys and values before it reads any.
    pub(crate) fn commit(&mut self, table: &mut PageTable, tokens: &[u32], computed: usize) {
        let size = self.shape.tokens;
        let full = table.computed / size..computed / size;
        table.computed = computed;
        if self.sharing == PrefixSharing::Off {
            return;
        }
        for index in full {
            let parent = table.parent(index);
            let page = table.pages[index];
            match self.pool.tree.insert(parent, &tokens[index * size..(index + 1) * size], page) {
                Some(other) if other != page => {
                    // Two sequences that compute the same tokens in one pass share one page.
                    self.pool.retain(other);
                    self.pool.release(page);
                    table.pages[index] = other;
                }
                _ => self.pending.push(page),
            }
        }
    }

    /// Called after the scheduled forward pass.
    pub(crate) fn mark_computed(&mut self) {
        for page in self.pending.drain(..) {
            self.pool.tree.set_ready(page);
        }
    }

    /// Releases a sequence's pages. Their contents stay in the prefix tree until evicted.
    pub(crate) fn release(&mut self, table: &mut PageTable, tokens: &[u32]) {
        let size = self.shape.tokens;
        let (full, rest) = (table.computed / size, table.computed % size);
        if rest > 0 && self.sharing == PrefixSharing::On {
            let parent = table.parent(full);
            let page = table.pages[full];
            let begun = &tokens[full * size..table.computed];
            if self.pool.tree.insert(parent, begun, page) == Some(page) {
                self.pool.tree.set_ready(page);
            }
        }
        for page in table.pages.drain(..).rev() {
            self.pool.release(page);
        }
        table.computed = 0;
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Elements of pages aligned to a cache line.
fn padded<T>((pages, elements): (usize, usize)) -> usize {
    pages * elements + LINE / size_of::<T>()
}

/// The cache-line-aligned part of `values`, as [pages, elements], so that no vector load crosses a line boundary.
fn aligned<T: WithDType>(values: Vec<T>, (pages, elements): (usize, usize)) -> candle_core::Result<Tensor> {
    let skip = values.as_ptr().align_offset(LINE).min(LINE / size_of::<T>());
    let length = values.len();
    // The tensor takes the vector without copying.
    Tensor::from_vec(values, length, &Device::Cpu)?.narrow(0, skip, pages * elements)?.reshape((pages, elements))
}
