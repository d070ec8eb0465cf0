//! Attention over pages.
//!
//! A task is one key/value head of up to six rows. Pages common to all its rows (rows of one prompt, or decoding rows
//! with a common prefix) are read once for all of them; other pages are read per row. Either way each row's sums are
//! the same chains of operations. With a sliding window, pages that no row of the task sees are not read; those that
//! only some rows see add zeros to the others.

use std::ops::Range;

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use rayon::prelude::*;

use super::plan::Way;
use super::{PageShape, Plan, Span, check, device};
use crate::kernels;
use crate::ops::attention::{Mask, exponentials, key_stride};
use crate::ops::cpu::{self, SharedMut};
use crate::ops::product::{Buffer, COLUMNS, Element, LANES, Left, Next, Output, ROWS, Right, Target, tile};
use crate::ops::{pool, simd};

/// A row of a task.
#[derive(Clone, Copy, Default)]
pub(super) struct Row<'a> {
    /// One past the last key it attends to.
    seen: usize,
    pages: &'a [u32],
}

/// Up to [`ROWS`] consecutive rows of the batch.
pub(super) struct Group<'a> {
    first: usize,
    rows: Vec<Row<'a>>,
    /// Leading pages that all rows share.
    common: usize,
}

/// Attends with the queries of `qkv` [N, (H + 2·KV)·head size] to `keys` and `values` [pages, elements], which must
/// already contain the rows' own → [N, H·head size].
///
/// # Errors
/// Shapes or slopes that do not match the plan, or tensors that are not contiguous f32 (`keys` and `values` may be bf16; with
/// kernels, all three).
pub fn forward(qkv: &Tensor, keys: &Tensor, values: &Tensor, plan: &Plan<'_>, mask: &Mask) -> Result<Tensor> {
    check(qkv, keys, values, plan)?;
    mask.check(plan.shape.heads)?;
    let shape = plan.shape;
    let groups = match &plan.way {
        Way::Cpu { groups, .. } => groups,
        Way::Device(tables) => {
            let Some(kernels) = kernels::of(qkv.device())? else { bail!("paged attention: a plan for another device") };
            return device::forward(&*kernels, qkv, (keys, values), tables, plan, mask);
        }
    };
    match keys.dtype() {
        DType::BF16 => all_groups::<bf16>(qkv, (keys, values), shape, groups, mask),
        _ => all_groups::<f32>(qkv, (keys, values), shape, groups, mask),
    }
}

/// [`forward`] on a CPU with checked tensors and pages of a format.
fn all_groups<T: Element>(
    qkv: &Tensor,
    (keys, values): (&Tensor, &Tensor),
    shape: PageShape,
    groups: &[Group<'_>],
    mask: &Mask,
) -> Result<Tensor> {
    let extents = (qkv.dim(0)?, shape.query_size());
    let mut out = pool::values(extents.0 * extents.1);
    let target = SharedMut::new(&mut out);
    cpu::read(qkv, |qkv| {
        T::read(keys, |keys| {
            T::read(values, |values| {
                let tensors = Tensors { qkv, keys, values, shape, mask };
                // Head by head, so that pages shared by many rows stay in the cache.
                (0..shape.heads.kv * groups.len()).into_par_iter().for_each(|task| {
                    let (kv, group) = (task / groups.len(), &groups[task % groups.len()]);
                    // SAFETY: the spans were checked; rows and head of a task are not shared.
                    unsafe { attend(&tensors, group, kv, target) }
                });
                Ok(())
            })
        })
    })?;
    cpu::tensor(out, extents)
}

/// Groups rows of one span, and adjacent spans of one row.
pub(super) fn groups<'a>(spans: &[Span<'a>], size: usize) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut open = false;
    for span in spans.iter().filter(|span| !span.rows.is_empty()) {
        let row = |at: usize| {
            let seen = span.position + at + 1;
            Row { seen, pages: &span.pages[..seen.div_ceil(size)] }
        };
        if span.rows.len() == 1 {
            match groups.last_mut() {
                Some(group) if open && group.rows.len() < ROWS => group.rows.push(row(0)),
                _ => groups.push(Group { first: span.rows.start, rows: vec![row(0)], common: 0 }),
            }
            open = true;
            continue;
        }
        open = false;
        for first in (0..span.rows.len()).step_by(ROWS) {
            let rows: Vec<Row<'_>> = (first..span.rows.len().min(first + ROWS)).map(row).collect();
            let common = rows.last().map_or(0, |row| row.pages.len());
            groups.push(Group { first: span.rows.start + first, rows, common });
        }
    }
    for group in groups.iter_mut().filter(|group| group.common == 0) {
        // Only full pages: every row attends to all of a shared page.
        let Some((first, rest)) = group.rows.split_first() else { continue };
        let same = |row: &Row<'_>| first.pages.iter().zip(row.pages).take_while(|(a, b)| a == b).count();
        let shared = rest.iter().map(same).min().unwrap_or(first.pages.len());
        let full = group.rows.iter().map(|row| row.seen / size).min().unwrap_or(0);
        group.common = shared.min(full);
    }
    groups
}

struct Tensors<'a, T> {
    qkv: &'a [f32],
    keys: &'a [T],
    values: &'a [T],
    shape: PageShape,
    mask: &'a Mask,
}

impl<T> Tensors<'_, T> {
    /// The keys that a row attends to.
    fn seen(&self, row: &Row<'_>) -> Range<usize> {
        self.mask.first_key(row.seen - 1)..row.seen
    }

    /// A head's keys in a page.
    fn keys(&self, page: u32, kv: usize) -> Right<T> {
        Right::new(self.keys[self.head(page, kv)..].as_ptr(), self.shape.tokens)
    }

    /// A head's values in a page.
    fn values(&self, page: u32, kv: usize) -> Right<T> {
        Right::new(self.values[self.head(page, kv)..].as_ptr(), self.shape.heads.dim)
    }

    fn head(&self, page: u32, kv: usize) -> usize {
        page as usize * self.shape.elements() + kv * self.shape.tokens * self.shape.heads.dim
    }
}

/// Computes one key/value head of a group of rows.
///
/// # Safety
/// The group must be inside the checked tensors, and nothing else may use its outputs.
unsafe fn attend<T: Element>(tensors: &Tensors<'_, T>, group: &Group<'_>, kv: usize, out: SharedMut) {
    let PageShape { tokens: size, heads } = tensors.shape;
    let (dim, width, out_width) = (heads.dim, tensors.shape.joined(), tensors.shape.query_size());
    let scale = 1.0 / (dim as f32).sqrt();
    let pages = group.rows.iter().map(|row| row.pages.len()).max().unwrap_or(0);
    let most = group.rows.iter().map(|row| row.seen).max().unwrap_or(0);
    // The pages that are read for all rows, and those of one row.
    let first_page = |row: &Row<'_>| tensors.seen(row).start / size;
    let common = group.rows.iter().map(first_page).min().unwrap_or(0).min(group.common)..group.common;
    let own = |row: &Row<'_>| first_page(row).max(group.common)..row.pages.len();
    let stride = key_stride(pages * size);
    let mut buffer = Buffer::new(group.rows.len() * stride);
    let scores = buffer.as_mut_ptr();
    let per_kv = heads.query / heads.kv;
    // Pages read by a single row come from memory; shared ones stay in the cache.
    let next = |rows: usize, block: Right<T>| if rows == 1 { Next::Stream(block.at) } else { Next::Unknown };
    for head in kv * per_kv..(kv + 1) * per_kv {
        // Scores of rows `first..first + rows` for the pages `range` of `row`.
        let score = |first: usize, rows: usize, row: &Row<'_>, range: Range<usize>| {
            let at = (group.first + first) * width + head * dim;
            let queries = Left { at: tensors.qkv[at..].as_ptr(), row: width, k: 1 };
            for page in range.clone() {
                let following = if page + 1 < range.end {
                    tensors.keys(row.pages[page + 1], kv)
                } else {
                    tensors.values(row.pages[range.start], kv)
                };
                let keys = tensors.keys(row.pages[page], kv).then(next(rows, following));
                for column in (0..size).step_by(COLUMNS) {
                    let target = scores.wrapping_add(first * stride + page * size + column);
                    let extents = (rows, dim, COLUMNS.min(size - column));
                    // SAFETY: queries and keys are inside the checked tensors, the scores inside the buffer.
                    unsafe {
                        tile(extents, queries, keys.columns(column), Target::new(target, stride), Output::Overwrite)
                    }
                }
            }
        };
        let sum = |first: usize, rows: usize, row: &Row<'_>, range: Range<usize>, seen: usize, initial: Output| {
            let at = (group.first + first) * out_width + head * dim;
            for page in range.clone() {
                let from = scores.wrapping_add(first * stride + page * size);
                let probabilities = Left { at: from, row: stride, k: 1 };
                let following = row.pages[range.clone()].get(page + 1 - range.start);
                let following = following.map_or(Next::Unknown, |page| next(rows, tensors.values(*page, kv)));
                let values = tensors.values(row.pages[page], kv).then(following);
                let output = if page == range.start { initial } else { Output::Accumulate };
                for column in (0..dim).step_by(COLUMNS) {
                    let target = Target::new(out.at(at + column), out_width);
                    let extents = (rows, size.min(seen - page * size), COLUMNS.min(dim - column));
                    // SAFETY: as above; the rows of the output belong to this task.
                    unsafe { tile(extents, probabilities, values.columns(column), target, output) }
                }
            }
        };
        let last = group.rows.last().copied().unwrap_or_default();
        let slope = tensors.mask.slope(head);
        score(0, group.rows.len(), &last, common.clone());
        for (i, row) in group.rows.iter().enumerate() {
            score(i, 1, row, own(row));
        }
        let mut inverse = [0f32; ROWS];
        simd::vectorized(
            #[inline(always)]
            || {
                for (i, row) in group.rows.iter().enumerate() {
                    // SAFETY: row i of the buffer, which is at least a register longer than the keys.
                    let scores = unsafe { std::slice::from_raw_parts_mut(scores.add(i * stride), stride) };
                    // Zeros where the rows are summed together, or only this one is.
                    let begin = if common.is_empty() { first_page(row) } else { common.start } * size;
                    let end = row.seen.max(most.min(group.common * size));
                    let (sum, _) = exponentials(scores, tensors.seen(row), begin..end, (scale, slope));
                    inverse[i] = 1.0 / sum;
                }
            },
        );
        sum(0, group.rows.len(), &last, common.clone(), most, Output::Overwrite);
        let initial = if common.is_empty() { Output::Overwrite } else { Output::Accumulate };
        for (i, row) in group.rows.iter().enumerate() {
            sum(i, 1, row, own(row), row.seen, initial);
            let at = (group.first + i) * out_width + head * dim;
            // SAFETY: row i of the output belongs to this task.
            let is_finite = || unsafe { std::slice::from_raw_parts(out.at(at), dim) }.iter().all(|o| o.is_finite());
            if group.rows.len() > 1 && !is_finite() {
                // A value that only later rows see may be infinite, and zero times that is not zero.
                sum(i, 1, row, first_page(row)..row.pages.len(), row.seen, Output::Overwrite);
            }
            // SAFETY: as above.
            for o in unsafe { std::slice::from_raw_parts_mut(out.at(at), dim) } {
                *o *= inverse[i];
            }
        }
    }
    debug_assert!(stride.is_multiple_of(LANES));
}
