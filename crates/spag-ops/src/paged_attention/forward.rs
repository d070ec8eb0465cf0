//! Attention over KV cache pages.
//!
//! A task is one key/value head of up to six rows. Pages shared by all its rows (rows of one prompt, or decoding rows with
//! a common prefix) are read once for all of them; other pages are read per row. Either way, each row's sums are the same
//! chains of operations. With a sliding window, pages that no row of the task sees are not read; pages that only some rows
//! see add zeros to the others.

use std::ops::Range;

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use rayon::prelude::*;

use super::groups::{Group, Read, Row};
use super::plan::PlannedOn;
use super::{PageShape, Plan, check, device};
use crate::attention::{Mask, exponentials, key_stride};
use crate::cpu::{self, SharedMut};
use crate::kernels;
use crate::product::{Buffer, COLUMNS, Element, LANES, Left, Next, Output, ROWS, Right, Target, tile};
use crate::{pool, simd};

/// Computes attention of the queries in `qkv` [N, (H + 2·KV)·head size] over `keys` and `values` [pages, elements],
/// which must already contain the rows' own → [N, H·head size].
///
/// # Errors
/// Shapes or slopes that do not match the plan, or tensors that are not contiguous f32 (`keys` and `values` may be bf16; with
/// kernels, all three).
pub fn forward(qkv: &Tensor, keys: &Tensor, values: &Tensor, plan: &Plan<'_>, mask: &Mask) -> Result<Tensor> {
    check(qkv, keys, values, plan)?;
    mask.check(plan.shape.heads)?;
    let shape = plan.shape;
    let groups = match &plan.planned_on {
        PlannedOn::Cpu { groups, .. } => groups,
        PlannedOn::Device(tables) => {
            let Some(kernels) = kernels::of(qkv.device())? else { bail!("paged attention: a plan for another device") };
            return device::forward(&*kernels, qkv, (keys, values), tables, plan, mask);
        }
    };
    match keys.dtype() {
        DType::BF16 => all_groups::<bf16>(qkv, (keys, values), shape, groups, mask),
        _ => all_groups::<f32>(qkv, (keys, values), shape, groups, mask),
    }
}

/// [`forward`] on a CPU with validated tensors and pages of one format.
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
                let tasks = shape.heads.kv * groups.len();
                let of = |task: usize| (task / groups.len(), &groups[task % groups.len()]);
                // Heads in the outer loop, so that pages shared by many rows stay in the cache.
                (0..tasks).into_par_iter().for_each(|task| {
                    let (kv, group) = of(task);
                    let following = Some(task + 1).filter(|next| *next < tasks).map(of);
                    let following = following.and_then(|(kv, group)| tensors.first_keys(group, kv));
                    // SAFETY: the spans were checked; rows and head of a task are not shared.
                    unsafe { attend(&tensors, group, kv, following.map_or(Next::Unknown, Next::Stream), target) }
                });
                Ok(())
            })
        })
    })?;
    cpu::tensor(out, extents)
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

    /// The first page in which a row sees a key.
    fn first_page(&self, row: &Row<'_>) -> usize {
        self.seen(row).start / self.shape.tokens
    }

    /// A head's keys in a page.
    fn keys(&self, page: u32, kv: usize) -> Right<T> {
        Right::new(self.keys[self.head(page, kv)..].as_ptr(), self.shape.tokens)
    }

    /// A head's values in a page.
    fn values(&self, page: u32, kv: usize) -> Right<T> {
        Right::new(self.values[self.head(page, kv)..].as_ptr(), self.shape.heads.dim)
    }

    /// The first keys that a group reads.
    fn first_keys(&self, group: &Group<'_>, kv: usize) -> Option<*const T> {
        group.first_read(|row| self.first_page(row)).map(|page| self.keys(page, kv).at)
    }

    fn head(&self, page: u32, kv: usize) -> usize {
        page as usize * self.shape.elements() + kv * self.shape.tokens * self.shape.heads.dim
    }
}

/// Computes one key/value head of a group of rows. `following` are the keys read next.
///
/// # Safety
/// The group must be inside the checked tensors, and nothing else may use its outputs.
unsafe fn attend<T: Element>(
    tensors: &Tensors<'_, T>,
    group: &Group<'_>,
    kv: usize,
    following: Next<T>,
    out: SharedMut,
) {
    let PageShape { tokens: size, heads } = tensors.shape;
    let (dim, width, out_width) = (heads.dim, tensors.shape.joined(), tensors.shape.query_size());
    let scale = tensors.mask.scale(dim);
    let first_page = |row: &Row<'_>| tensors.first_page(row);
    let (shared, seen) = (group.shared(first_page), group.seen());
    let reads = group.reads(&shared, first_page);
    let stride = key_stride(seen.next_multiple_of(size));
    let mut buffer = Buffer::new(group.rows.len() * stride);
    let scores = buffer.as_mut_ptr();
    let per_kv = heads.query / heads.kv;
    for head in kv * per_kv..(kv + 1) * per_kv {
        // Computes the scores of the rows of a read.
        let score = |read: &Read, next: Next<T>| {
            let at = (group.first + read.rows.start) * width + head * dim;
            let queries = Left { at: tensors.qkv[at..].as_ptr(), row: width, k: 1 };
            let keys = tensors.keys(read.page, kv).then(next);
            for column in (0..size).step_by(COLUMNS) {
                let target = scores.wrapping_add(read.rows.start * stride + read.index * size + column);
                let extents = (read.rows.len(), dim, COLUMNS.min(size - column));
                // SAFETY: queries and keys are inside the checked tensors, the scores inside the buffer.
                unsafe { tile(extents, queries, keys.columns(column), Target::new(target, stride), Output::Overwrite) }
            }
        };
        // Adds a read's values to the outputs of its rows.
        let sum = |read: &Read, next: Next<T>| {
            let at = (group.first + read.rows.start) * out_width + head * dim;
            let from = scores.wrapping_add(read.rows.start * stride + read.index * size);
            let probabilities = Left { at: from, row: stride, k: 1 };
            let values = tensors.values(read.page, kv).then(next);
            for column in (0..dim).step_by(COLUMNS) {
                let target = Target::new(out.at(at + column), out_width);
                let extents = (read.rows.len(), size.min(read.seen - read.index * size), COLUMNS.min(dim - column));
                // SAFETY: as above; the rows of the output belong to this task.
                unsafe { tile(extents, probabilities, values.columns(column), target, read.output) }
            }
        };
        // Every read prefetches the next one: each head has only a few KiB per page, too few for hardware
        // prefetchers.
        let values = |read: &Read| Next::Stream(tensors.values(read.page, kv).at);
        for (i, read) in reads.iter().enumerate() {
            let keys = reads.get(i + 1).map(|next| Next::Stream(tensors.keys(next.page, kv).at));
            score(read, keys.unwrap_or_else(|| values(&reads[0])));
        }
        let slope = tensors.mask.slope(head);
        let mut inverse = [0f32; ROWS];
        simd::vectorized(
            #[inline(always)]
            || {
                for (i, row) in group.rows.iter().enumerate() {
                    // SAFETY: row i of the buffer, which is at least a register longer than the keys.
                    let scores = unsafe { std::slice::from_raw_parts_mut(scores.add(i * stride), stride) };
                    // Zeros where several rows are summed together, or only this row.
                    let begin = if shared.is_empty() { first_page(row) } else { shared.start } * size;
                    let end = row.seen.max(seen.min(group.common * size));
                    let (sum, _) = exponentials(scores, tensors.seen(row), begin..end, (scale, slope));
                    inverse[i] = 1.0 / sum;
                }
            },
        );
        for (i, read) in reads.iter().enumerate() {
            sum(read, reads.get(i + 1).map_or(following, values));
        }
        for (i, row) in group.rows.iter().enumerate() {
            let at = (group.first + i) * out_width + head * dim;
            // SAFETY: row i of the output belongs to this task.
            let is_finite = || unsafe { std::slice::from_raw_parts(out.at(at), dim) }.iter().all(|o| o.is_finite());
            if group.rows.len() > 1 && !is_finite() {
                // A value seen only by later rows may be infinite, and zero times infinity is not zero.
                group.reads_of_row(i, first_page(row)).for_each(|read| sum(&read, Next::Unknown));
            }
            // SAFETY: as above.
            for o in unsafe { std::slice::from_raw_parts_mut(out.at(at), dim) } {
                *o *= inverse[i];
            }
        }
    }
    debug_assert!(stride.is_multiple_of(LANES));
}
