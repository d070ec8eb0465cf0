//! Writes keys and values into pages, with or without RoPE, and copies parts of pages.

use std::ops::Range;

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use rayon::prelude::*;

use super::plan::PlannedOn;
use super::{PageShape, Plan, Span, check, device};
use crate::cpu::{self, Stored};
use crate::kernels;
use crate::product::Element;
use crate::rope::{Direction, Positions, RopeTable, rotate_leading};

/// Writes the keys and values of `qkv` [N, (H + 2·KV)·head size] into `keys` and `values` [pages, elements], in place,
/// rounded to their format.
///
/// # Errors
/// Shapes that do not match the plan, or tensors that are not contiguous f32 (`keys` and `values` may be bf16; with kernels,
/// all three).
pub fn append(qkv: &Tensor, keys: &Tensor, values: &Tensor, plan: &Plan<'_>) -> Result<()> {
    check(qkv, keys, values, plan)?;
    let pieces = match &plan.planned_on {
        PlannedOn::Cpu { pieces, .. } => pieces,
        PlannedOn::Device(tables) => {
            let Some(kernels) = kernels::of(qkv.device())? else { bail!("paged attention: a plan for another device") };
            return device::append(&*kernels, qkv, (keys, values), tables, plan);
        }
    };
    match keys.dtype() {
        DType::BF16 => all_pieces::<bf16>(pieces, qkv, (keys, values), plan.shape),
        _ => all_pieces::<f32>(pieces, qkv, (keys, values), plan.shape),
    }
}

/// Applies RoPE to the queries and keys of `qkv`, to the queries in place, and [appends](append) keys and values. Kernels do
/// both in one launch and leave the keys in `qkv` unrotated. Row n has the nth position.
///
/// # Errors
/// As [`append`]; a wrong number of positions, positions outside the table, or a table for another head size.
pub fn append_rotated(
    qkv: &Tensor,
    keys: &Tensor,
    values: &Tensor,
    plan: &Plan<'_>,
    (positions, table): (&Positions, &RopeTable),
) -> Result<()> {
    let PlannedOn::Device(tables) = &plan.planned_on else {
        let rotated = plan.shape.query_size() + plan.shape.kv_size();
        rotate_leading(qkv, rotated, positions, table, Direction::Forward)?;
        return append(qkv, keys, values, plan);
    };
    check(qkv, keys, values, plan)?;
    positions.check(plan.rows, table)?;
    if table.head() != plan.shape.heads.dim {
        bail!("paged attention: RoPE of heads of {} for {:?}", table.head(), plan.shape);
    }
    let Some(kernels) = kernels::of(qkv.device())? else { bail!("paged attention: a plan for another device") };
    device::append_rotated(&*kernels, qkv, (keys, values), (positions, table), tables, plan)
}

/// [`append`] on a CPU with validated tensors and pages of one format.
fn all_pieces<T: Element>(
    pieces: &[Piece],
    qkv: &Tensor,
    (keys, values): (&Tensor, &Tensor),
    shape: PageShape,
) -> Result<()> {
    cpu::read(qkv, |qkv| {
        T::update(keys, |keys| {
            T::update(values, |values| {
                let pages = by_page(pieces, keys, values, shape.elements());
                // Each element of a key is in another cache line of its page, so threads share the cache misses.
                let least = (PART / shape.kv_size()).max(1);
                pages.into_par_iter().with_min_len(least).for_each(|(pieces, keys, values)| {
                    pieces.iter().for_each(|piece| write(piece, qkv, keys, values, shape));
                });
                Ok(())
            })
        })
    })
}

/// Minimum key elements per thread.
const PART: usize = 2048;

/// Rows of a span within one page.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    page: usize,
    /// The slot of the first row in the page.
    slot: usize,
    rows: Range<usize>,
}

/// The pieces of checked spans, by page.
pub(super) fn pieces(spans: &[Span<'_>], size: usize) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(spans.len());
    for span in spans {
        let mut rows = span.rows.clone();
        while !rows.is_empty() {
            let position = span.position + rows.start - span.rows.start;
            let slot = position % size;
            let end = rows.end.min(rows.start + size - slot);
            pieces.push(Piece { page: span.pages[position / size] as usize, slot, rows: rows.start..end });
            rows.start = end;
        }
    }
    pieces.sort_by_key(|piece| piece.page);
    pieces
}

/// The pages to write, each with its pieces, keys and values.
fn by_page<'a, T>(
    pieces: &'a [Piece],
    mut keys: &'a mut [T],
    mut values: &'a mut [T],
    elements: usize,
) -> Vec<(&'a [Piece], &'a mut [T], &'a mut [T])> {
    let mut begin = 0;
    let mut take = |pieces: &'a [Piece]| {
        let page = pieces[0].page;
        let skipped = (page - begin) * elements;
        begin = page + 1;
        let cut = |from: &mut &'a mut [T]| {
            let (page, rest) = std::mem::take(from)[skipped..].split_at_mut(elements);
            *from = rest;
            page
        };
        (pieces, cut(&mut keys), cut(&mut values))
    };
    pieces.chunk_by(|a, b| a.page == b.page).map(&mut take).collect()
}

/// Writes the rows of a piece into its page.
fn write<T: Element>(piece: &Piece, qkv: &[f32], keys: &mut [T], values: &mut [T], shape: PageShape) {
    let (dim, size) = (shape.heads.dim, shape.tokens);
    let (query, kv) = (shape.query_size(), shape.kv_size());
    for (slot, row) in (piece.slot..).zip(piece.rows.clone()) {
        let row = &qkv[row * shape.joined() + query..(row + 1) * shape.joined()];
        for (column, key) in keys.chunks_exact_mut(size).zip(&row[..kv]) {
            column[slot] = T::nearest(*key);
        }
        for (head, value) in values.chunks_exact_mut(size * dim).zip(row[kv..].chunks_exact(dim)) {
            for (rounded, value) in head[slot * dim..(slot + 1) * dim].iter_mut().zip(value) {
                *rounded = T::nearest(*value);
            }
        }
    }
}

/// Copies the first `tokens` tokens of page `from` to page `to`, in place.
///
/// # Errors
/// A page out of range, more tokens than a page holds, or tensors that are not contiguous f32 (kernels also accept
/// bf16).
pub fn copy(keys: &Tensor, values: &Tensor, from: u32, to: u32, tokens: usize, shape: PageShape) -> Result<()> {
    let (count, elements) = keys.dims2()?;
    let (from, to, size, dim) = (from as usize, to as usize, shape.tokens, shape.heads.dim);
    if from >= count
        || to >= count
        || from == to
        || tokens > size
        || elements != shape.elements()
        || values.dims() != keys.dims()
    {
        bail!("paged attention: {tokens} tokens of page {from} to page {to} of {count} of {shape:?}");
    }
    if let Some(kernels) = kernels::of(keys.device())? {
        return device::copy(&*kernels, (keys, values), (from, to), tokens, shape);
    }
    for (pages, column, count) in [(keys, size, tokens), (values, size * dim, tokens * dim)] {
        let copied = Copied { pages: (from, to), elements, column, count };
        match pages.dtype() {
            DType::BF16 => copied.run::<bf16>(pages)?,
            _ => copied.run::<f32>(pages)?,
        }
    }
    Ok(())
}

/// A copy between pages: the first `count` of every `column` elements.
struct Copied {
    /// From, to.
    pages: (usize, usize),
    /// Elements of a page.
    elements: usize,
    column: usize,
    count: usize,
}

impl Copied {
    fn run<T: Stored>(&self, pages: &Tensor) -> Result<()> {
        let ((from, to), elements) = (self.pages, self.elements);
        T::update(pages, |pages| {
            let (low, high) = pages.split_at_mut(from.max(to) * elements);
            let (low, high) = (&mut low[from.min(to) * elements..][..elements], &mut high[..elements]);
            let (source, target) = if from < to { (low, high) } else { (high, low) };
            for (target, source) in target.chunks_exact_mut(self.column).zip(source.chunks_exact(self.column)) {
                target[..self.count].copy_from_slice(&source[..self.count]);
            }
            Ok(())
        })
    }
}
