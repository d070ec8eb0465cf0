//! Keys and values in pages: memory of a fixed size, shared by content.

mod pages;
mod prefix;
#[cfg(test)]
mod tests;

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;

use self::pages::Pages;
use super::config::{EngineConfig, PrefixSharing};
use crate::config::LlamaConfig;
use crate::error::{Error, Result};
use crate::kernels;
use crate::ops::attention::Heads;
use crate::ops::cpu;
use crate::ops::paged_attention::{self, PageShape, Plan, Span};

/// A page: its place in every layer's tensors.
pub(crate) type PageId = u32;

/// A sequence's part of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cached {
    /// Tokens whose keys and values are there, or will be after the forward pass that is being planned.
    pub(crate) computed: usize,
    /// Its pages, in order.
    pub(crate) pages: Vec<PageId>,
}

/// Pages of every layer.
pub(crate) struct KvCache {
    /// One a layer, [pages, elements].
    pub(crate) keys: Vec<Tensor>,
    pub(crate) values: Vec<Tensor>,
    pub(crate) shape: PageShape,
    pages: Pages,
    sharing: PrefixSharing,
    /// Pages that the forward pass which is being planned completes.
    pending: Vec<PageId>,
}

impl KvCache {
    /// Pages of numbers of `dtype` on `device`.
    pub(crate) fn new(model: &LlamaConfig, config: &EngineConfig, dtype: DType, device: &Device) -> Result<Self> {
        let heads = Heads { query: model.num_attention_heads, kv: model.kv_heads(), dim: model.head_dim() };
        let shape = PageShape { tokens: config.page_size, heads };
        let zeros = || match (device, dtype) {
            (Device::Cpu, DType::F32) => aligned_zeros(config.pages, shape.elements()),
            _ => Tensor::zeros((config.pages, shape.elements()), dtype, device),
        };
        let layers = || (0..model.num_hidden_layers).map(|_| zeros());
        Ok(Self {
            keys: layers().collect::<candle_core::Result<_>>()?,
            values: layers().collect::<candle_core::Result<_>>()?,
            shape,
            pages: Pages::new(config.pages),
            sharing: config.prefix_sharing,
            pending: Vec::new(),
        })
    }

    /// What a forward pass over `spans` needs to know in every layer.
    pub(crate) fn plan<'a>(&self, spans: &[Span<'a>]) -> Result<Plan<'a>> {
        let Some(pages) = self.keys.first() else { return Err(Error::Config("a model needs a layer".into())) };
        Ok(Plan::new(spans, pages, self.shape)?)
    }

    /// Pages that `tokens` tokens need.
    pub(crate) fn pages_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.shape.tokens)
    }

    /// Pages that can be had now.
    pub(crate) fn available(&self) -> usize {
        self.pages.available()
    }

    /// Lets a sequence with these `tokens` use what is there of them already: whole pages, and the beginning of one
    /// more. Its last token is always left to compute: what follows it must be known. Returns how many tokens were
    /// found.
    pub(crate) fn share(&mut self, cached: &mut Cached, tokens: &[u32]) -> Result<usize> {
        let before = cached.computed;
        self.share_pages(cached, tokens);
        let (size, usable) = (self.shape.tokens, tokens.len().saturating_sub(1));
        let (start, index) = (cached.computed, cached.computed / size);
        // A page that the sequence has begun itself stays its own.
        if self.sharing == PrefixSharing::On && start % size == 0 && cached.pages.len() == index && start < usable {
            self.copy_beginning(cached, &tokens[start..(start + size).min(usable)])?;
        }
        Ok(cached.computed - before)
    }

    /// As [`KvCache::share`] with whole pages alone, which costs no memory.
    pub(crate) fn share_pages(&mut self, cached: &mut Cached, tokens: &[u32]) -> usize {
        let (size, before) = (self.shape.tokens, cached.computed);
        while self.sharing == PrefixSharing::On {
            let index = cached.computed / size;
            let (start, end) = (index * size, (index + 1) * size);
            let parent = index.checked_sub(1).map(|last| cached.pages[last]);
            let Some(next) = tokens.get(start..end).filter(|_| end < tokens.len()) else { break };
            let Some(page) = self.pages.tree.child(parent, next) else { break };
            // A page that the sequence had begun itself is given up for the whole one.
            self.pages.retain(page);
            for begun in cached.pages.drain(index..) {
                self.pages.release(begun);
            }
            cached.pages.push(page);
            cached.computed = end;
        }
        cached.computed - before
    }

    /// Copy on write: where another page begins with the same tokens, a page of the sequence's own gets its beginning.
    fn copy_beginning(&mut self, cached: &mut Cached, tokens: &[u32]) -> Result<()> {
        let parent = cached.pages.last().copied();
        let Some((source, common)) = self.pages.tree.longest(parent, tokens) else { return Ok(()) };
        // In use meanwhile, so that it is not the page that has to go.
        self.pages.retain(source);
        let copied = self.pages.allocate().map(|page| {
            let copy = |(keys, values): (&Tensor, &Tensor)| {
                paged_attention::copy(keys, values, source, page, common, self.shape)
            };
            // A device's kernels are started one after another, from the thread that starts all others.
            match self.keys.first().map(|keys| kernels::of(keys.device())).transpose()?.flatten() {
                Some(_) => self.keys.iter().zip(&self.values).try_for_each(copy)?,
                None => self.keys.par_iter().zip(&self.values).try_for_each(copy)?,
            }
            cached.pages.push(page);
            cached.computed += common;
            Ok(())
        });
        self.pages.release(source);
        copied.unwrap_or(Ok(()))
    }

    /// Gets pages for the first `tokens` tokens of a sequence. What it got stays with it where not all can be had, and
    /// `false` says so.
    pub(crate) fn reserve(&mut self, cached: &mut Cached, tokens: usize) -> bool {
        while cached.pages.len() < self.pages_for(tokens) {
            match self.pages.allocate() {
                Some(page) => cached.pages.push(page),
                None => return false,
            }
        }
        true
    }

    /// Notes that the forward pass which is being planned computes `tokens` up to `computed`: pages that it fills can
    /// be shared at once, since every layer writes all keys and values before it reads any.
    pub(crate) fn fill(&mut self, cached: &mut Cached, tokens: &[u32], computed: usize) {
        let size = self.shape.tokens;
        let full = cached.computed / size..computed / size;
        cached.computed = computed;
        if self.sharing == PrefixSharing::Off {
            return;
        }
        for index in full {
            let parent = index.checked_sub(1).map(|last| cached.pages[last]);
            let page = cached.pages[index];
            match self.pages.tree.insert(parent, &tokens[index * size..(index + 1) * size], page) {
                Some(other) if other != page => {
                    // The same tokens twice at the same time: one page is enough, and gets the same values twice.
                    self.pages.retain(other);
                    self.pages.release(page);
                    cached.pages[index] = other;
                }
                _ => self.pending.push(page),
            }
        }
    }

    /// The planned forward pass has run.
    pub(crate) fn computed(&mut self) {
        for page in self.pending.drain(..) {
            self.pages.tree.set_ready(page);
        }
    }

    /// Gives a sequence's pages up; what they hold of `tokens` can be found until the memory is needed.
    pub(crate) fn release(&mut self, cached: &mut Cached, tokens: &[u32]) {
        let size = self.shape.tokens;
        let (full, rest) = (cached.computed / size, cached.computed % size);
        if rest > 0 && self.sharing == PrefixSharing::On {
            let parent = full.checked_sub(1).map(|last| cached.pages[last]);
            let page = cached.pages[full];
            let begun = &tokens[full * size..cached.computed];
            if self.pages.tree.insert(parent, begun, page) == Some(page) {
                self.pages.tree.set_ready(page);
            }
        }
        for page in cached.pages.drain(..).rev() {
            self.pages.release(page);
        }
        cached.computed = 0;
    }
}

/// Zeros that begin at a cache line, so that no load of a page's rows crosses two.
fn aligned_zeros(pages: usize, elements: usize) -> candle_core::Result<Tensor> {
    const LINE: usize = 64;
    let count = pages * elements;
    let values = vec![0f32; count + LINE / size_of::<f32>()];
    let length = values.len();
    let padded = cpu::tensor(values, length)?;
    debug_assert!(matches!(padded.device(), Device::Cpu));
    let skip = cpu::read(&padded, |values| Ok(values.as_ptr().align_offset(LINE)))?;
    padded.narrow(0, skip.min(LINE / size_of::<f32>()), count)?.reshape((pages, elements))
}
