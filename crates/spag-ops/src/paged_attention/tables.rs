//! Page tables and work lists of a pass, in one tensor that is uploaded once.

use std::collections::HashSet;

use candle_core::{DType, Result, Tensor, bail};

use super::{PageShape, Span};
use crate::kernels::{Kernels, SumOrder};

/// Words before the lists; see `tables.cuh`.
const HEADER: usize = 8;
/// Table lengths are multiples of this.
const LENGTH_STEP: usize = 1024;
/// Queries of a prefill tile.
const TILE_QUERIES: usize = 64;
/// Maximum query heads per KV head of the tensor-core decode kernel.
const MAX_GROUPED: usize = 16;
/// Keys per stripe, the unit of copies and splits.
const STRIPE: usize = 16;
/// Maximum head size.
const LARGEST_HEAD: usize = 256;
/// Decode blocks that fill a large GPU: four on each of 132 multiprocessors.
const BLOCKS: usize = 4 * 132;
/// Maximum number of splits of a row's keys.
const MAX_SPLITS: usize = 64;

/// Kernel variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelVariant {
    /// Tensor cores: bf16, head size 64 or 128, pages of whole stripes, at most 16 query heads per KV head.
    TensorCores,
    /// One row at a time, any shape.
    Rows,
}

/// The tables of a pass.
///
/// Only `tensor`, the grids and `splits` change between passes. A captured pass can be replayed with other contents, as
/// long as no list is longer than at capture.
pub(super) struct Tables {
    /// u32; `tables.cuh` describes the layout.
    pub(super) tensor: Tensor,
    pub(super) route: KernelVariant,
    /// Rows of single-token spans, with padding; all rows with [`KernelVariant::Rows`].
    pub(super) decoding: usize,
    /// Prefill tiles, with padding: of spans with several rows, or of all spans if the order of keys is fixed.
    pub(super) tiles: usize,
    /// Splits of a decoding row's keys; depends only on the number of decoding rows.
    pub(super) splits: usize,
    /// Partial results of the splits: [rows, heads, splits, 2] and [rows, heads, splits, dim]; reused by every layer.
    pub(super) partial: Option<(Tensor, Tensor)>,
}

/// The lists under construction.
#[derive(Default)]
struct Lists {
    places: Vec<u32>,
    written: HashSet<[u32; 2]>,
    decoding: Vec<u32>,
    tiles: Vec<[u32; 4]>,
    pages: Vec<u32>,
}

impl Tables {
    /// `padding` counts rows after the spans. They are not in the lists, so their blocks do nothing.
    pub(super) fn new(
        kernels: &dyn Kernels,
        spans: &[Span<'_>],
        padding: usize,
        pages: &Tensor,
        (shape, order): (PageShape, SumOrder),
    ) -> Result<Self> {
        let heads = shape.heads;
        let addresses = pages.dim(0)? * heads.kv * shape.tokens * heads.dim.div_ceil(8);
        if heads.dim > LARGEST_HEAD || u32::try_from(addresses).is_err() {
            bail!("paged attention: there are no kernels for pages {:?} of {shape:?}", pages.dims());
        }
        let route = route(pages.dtype(), shape);
        let tiling = match route {
            KernelVariant::TensorCores => Some((TILE_QUERIES * heads.kv / heads.query, order)),
            KernelVariant::Rows => None,
        };
        let mut lists = Lists::default();
        for span in spans.iter().filter(|span| !span.rows.is_empty()) {
            lists.add(span, shape.tokens, tiling);
        }
        let (mut decoding, mut tiles) = (lists.decoding.len() / 4, lists.tiles.len());
        match tiling {
            Some((_, SumOrder::Fixed)) => tiles += padding,
            _ => decoding += padding,
        }
        let splits = BLOCKS.div_ceil((decoding * heads.kv).max(1)).clamp(1, MAX_SPLITS);
        let partial = if splits > 1 && decoding > 0 {
            Some((
                kernels.empty(&[decoding, heads.query, splits, 2], DType::F32)?,
                kernels.empty(&[decoding, heads.query, splits, heads.dim], DType::F32)?,
            ))
        } else {
            None
        };
        let values = lists.joined();
        let length = values.len();
        let tensor = Tensor::from_vec(values, length, pages.device())?;
        Ok(Self { tensor, route, decoding, tiles, splits, partial })
    }
}

impl Tables {
    /// Whether all `rows` of the pass are single-token spans or padding, computed by one kernel: such passes can be
    /// replayed.
    pub(super) fn repeats(&self, rows: usize) -> bool {
        [(self.decoding, self.tiles), (self.tiles, self.decoding)].contains(&(rows, 0))
    }

    /// Uninitialized tables of the same lengths, with their own scratch memory.
    pub(super) fn uninit_like(&self, kernels: &dyn Kernels) -> Result<Self> {
        let like = |tensor: &Tensor| kernels.empty(tensor.dims(), tensor.dtype());
        let partial = match &self.partial {
            Some((stats, sums)) => Some((like(stats)?, like(sums)?)),
            None => None,
        };
        Ok(Self { tensor: like(&self.tensor)?, partial, ..*self })
    }
}

fn route(dtype: DType, shape: PageShape) -> KernelVariant {
    let heads = shape.heads;
    let fits = dtype == DType::BF16
        && matches!(heads.dim, 64 | 128)
        && shape.tokens.is_multiple_of(STRIPE)
        && heads.query / heads.kv <= MAX_GROUPED;
    if fits { KernelVariant::TensorCores } else { KernelVariant::Rows }
}

impl Lists {
    /// Adds a span's rows and pages. `tiling` holds the rows of a tile, if the kernels use tiles.
    fn add(&mut self, span: &Span<'_>, size: usize, tiling: Option<(usize, SumOrder)>) {
        // Relative to the list of pages, whose offset is not known yet.
        let pages = self.pages.len() as u32;
        let rows = span.rows.len();
        self.pages.extend_from_slice(&span.pages[..(span.position + rows).div_ceil(size)]);
        for position in span.position..span.position + rows {
            let place = [span.pages[position / size], (position % size) as u32];
            // If several sequences compute a shared page in one pass, their values are equal up to rounding, and
            // only one of them writes.
            self.places.extend(if self.written.insert(place) { place } else { [u32::MAX, 0] });
        }
        match tiling {
            Some((most, order)) if rows > 1 || order == SumOrder::Fixed => {
                for first in (0..rows).step_by(most) {
                    let count = most.min(rows - first);
                    let (row, position) = (span.rows.start + first, span.position + first);
                    self.tiles.push([row as u32, count as u32, position as u32, pages]);
                }
            }
            _ => {
                for row in 0..rows {
                    self.decoding.extend([(span.rows.start + row) as u32, (span.position + row + 1) as u32, pages, 0]);
                }
            }
        }
    }

    /// Concatenates all lists.
    fn joined(mut self) -> Vec<u32> {
        // Longest first.
        self.tiles.sort_by_key(|[_, rows, position, _]| std::cmp::Reverse(rows + position));
        let places = HEADER;
        let decoding = places + self.places.len();
        let tiles = decoding + self.decoding.len();
        let pages = tiles + 4 * self.tiles.len();
        for row in self.decoding.chunks_exact_mut(4) {
            row[2] += pages as u32;
        }
        for tile in &mut self.tiles {
            tile[3] += pages as u32;
        }
        let counts = [self.places.len() / 2, self.decoding.len() / 4, self.tiles.len(), places, decoding, tiles, 0, 0];
        let mut all: Vec<u32> = counts.iter().map(|count| *count as u32).collect();
        all.extend(self.places);
        all.extend(self.decoding);
        all.extend(self.tiles.into_flattened());
        all.extend(self.pages);
        // Rounded up, so that similar passes have equal lengths and share a captured graph.
        all.resize(all.len().next_multiple_of(LENGTH_STEP), 0);
        all
    }
}
