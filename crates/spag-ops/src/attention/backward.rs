use std::ops::Range;

use candle_core::{DType, Result, Tensor, bail};
use rayon::prelude::*;

use super::forward::{biased, row_products, value_rows};
#[cfg(target_arch = "x86_64")]
use super::products::{InBf16, is_paired};
use super::products::{InF32, Products};
#[cfg(target_arch = "x86_64")]
use super::tiles::{InTiles, is_tiled};
use super::{Heads, Held, LogSumExp, Mask, Segment, Sequences, Task, check, device, key_stride, tasks, tile_begin};
use crate::cast::widened;
use crate::cpu::{self, SharedMut, Stored};
use crate::kernels;
use crate::product::{Buffer, COLUMNS, LANES, Left, Output, Right, Target};
use crate::{pool, simd};

/// The gradients of q, k and v, given the output of [`super::forward`], its log-sum-exps and the gradient of the
/// output.
///
/// # Errors
/// As [`super::forward`], or log-sum-exps computed on another device.
#[expect(clippy::too_many_arguments, reason = "the tensors of the forward pass and the gradient")]
pub fn backward(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    out: &Tensor,
    lse: &LogSumExp,
    dout: &Tensor,
    sequences: &Sequences,
    heads: Heads,
    mask: &Mask,
) -> Result<(Tensor, Tensor, Tensor)> {
    let n = check(q, k, v, sequences, heads, mask)?;
    let qd = heads.query * heads.dim;
    if out.dims() != [n, qd] || dout.dims() != [n, qd] || lse.len() != n * heads.query {
        bail!("attention backward: out {:?}, dout {:?} do not fit {heads:?}", out.dims(), dout.dims());
    }
    let kernels = kernels::of(q.device())?;
    let lse = match (&kernels, &lse.0) {
        (Some(kernels), Held::Device(lse)) => {
            return device::backward(&**kernels, &device::Saved { q, k, v, out, lse, dout }, sequences, heads, mask);
        }
        (None, Held::Host(lse)) => lse,
        _ => bail!("attention backward: the log-sum-exps were computed on another device"),
    };
    let saved = [q, k, v, out, dout];
    match q.dtype() {
        #[cfg(target_arch = "x86_64")]
        DType::BF16 if is_tiled(heads) => run::<InTiles>(saved, lse, sequences, heads, mask),
        #[cfg(target_arch = "x86_64")]
        DType::BF16 if is_paired(heads) => run::<InBf16>(saved, lse, sequences, heads, mask),
        DType::BF16 => {
            let [q, k, v, out] = [widened(q)?, widened(k)?, widened(v)?, widened(out)?];
            run::<InF32>([&q, &k, &v, &out, dout], lse, sequences, heads, mask)
        }
        _ => run::<InF32>(saved, lse, sequences, heads, mask),
    }
}

/// [`backward`] on a CPU.
fn run<P: Products>(
    [q, k, v, out, dout]: [&Tensor; 5],
    lse: &[f32],
    sequences: &Sequences,
    heads: Heads,
    mask: &Mask,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (n, qd, kd) = (q.dim(0)?, heads.query * heads.dim, heads.kv * heads.dim);
    let (mut dq, mut dk, mut dv) = (pool::values(n * qd), pool::values(n * kd), pool::values(n * kd));
    let copies = sequences.copies();
    let (mut dk_copies, mut dv_copies) = (pool::values(copies * kd), pool::values(copies * kd));
    let of_keys =
        |own: &mut [f32], copies: &mut [f32]| KeyGradients { own: SharedMut::new(own), copies: SharedMut::new(copies) };
    let grads = Gradients {
        q: SharedMut::new(&mut dq),
        k: of_keys(&mut dk, &mut dk_copies),
        v: of_keys(&mut dv, &mut dv_copies),
    };
    P::Value::read(q, |q| {
        P::Value::read(k, |k| {
            P::Value::read(v, |v| {
                P::Value::read(out, |out| {
                    cpu::read(dout, |dout| {
                        let saved = Saved { q, k, v, out, dout, lse };
                        tasks(sequences, heads).into_par_iter().for_each(|task| {
                            // SAFETY: the tensors were checked; the gradients and copies of (segment, key/value head with
                            // its group of query heads) belong to this task only.
                            unsafe { task_backward::<P>(&task, &saved, heads, mask, grads) }
                        });
                        Ok(())
                    })
                })
            })
        })
    })?;
    for (own, copies) in [(&mut dk, dk_copies), (&mut dv, dv_copies)] {
        add_copies(own, &copies, sequences, kd);
        pool::give(copies);
    }
    Ok((cpu::tensor(dq, (n, qd))?, cpu::tensor(dk, (n, kd))?, cpu::tensor(dv, (n, kd))?))
}

/// The forward pass's tensors as slices.
struct Saved<'a, T> {
    q: &'a [T],
    k: &'a [T],
    v: &'a [T],
    out: &'a [T],
    dout: &'a [f32],
    lse: &'a [f32],
}

/// The gradient buffers.
#[derive(Clone, Copy)]
struct Gradients {
    q: SharedMut,
    k: KeyGradients,
    v: KeyGradients,
}

/// The gradients of keys or values. A segment's own rows are written in place; its ancestors' rows go to private copies, since
/// other segments write them concurrently.
#[derive(Clone, Copy)]
struct KeyGradients {
    own: SharedMut,
    copies: SharedMut,
}

impl KeyGradients {
    /// The destination of a segment's gradient of its key at `position`, in rows of `row` elements.
    fn at(&self, segment: &Segment, position: usize, row: usize) -> *mut f32 {
        match position < segment.depth {
            true => self.copies.at((segment.copies + position) * row),
            false => self.own.at(segment.row(position) * row),
        }
    }
}

/// Adds the copies of all descendants to the gradients of each segment's rows of `kd` elements, in segment order.
fn add_copies(own: &mut [f32], copies: &[f32], sequences: &Sequences, kd: usize) {
    let mut rest = own;
    let mut parts = Vec::new();
    for segment in sequences.segments() {
        let (part, after) = rest.split_at_mut(segment.rows.len() * kd);
        rest = after;
        if !segment.descendants.is_empty() {
            parts
                .extend(part.chunks_exact_mut(kd).zip(segment.depth..).map(|(row, position)| (segment, position, row)));
        }
    }
    parts.into_par_iter().for_each(|(segment, position, row)| {
        for descendant in &sequences.segments()[segment.descendants.clone()] {
            let copy = &copies[(descendant.copies + position) * kd..][..kd];
            row.iter_mut().zip(copy).for_each(|(sum, copy)| *sum += copy);
        }
    });
}

/// The operands of a block of queries with one head.
struct BlockOperands<T> {
    /// Rows of dO.
    dout: Left<T>,
    /// dO and Q with one step per query.
    steps: [Right<T>; 2],
}

/// dV += Pᵀ·dO, dP = dO·Vᵀ, dS = P∘(dP − rowsum(dO∘O))·scale, dQ = dS·K, dK += dSᵀ·Q, block by block.
///
/// # Safety
/// The slices must have the shapes of the checked tensors; nothing else may use the task's gradients.
unsafe fn task_backward<P: Products>(
    task: &Task<'_>,
    saved: &Saved<'_, P::Value>,
    heads: Heads,
    mask: &Mask,
    grads: Gradients,
) {
    let (qd, kd, hd) = (heads.query * heads.dim, heads.kv * heads.dim, heads.dim);
    let (group, scale) = (heads.query / heads.kv, mask.scale(hd));
    let (segment, count) = (task.segment, task.segment.keys());
    let stride = key_stride(count);
    let (transposed, rows) = (hd * stride, value_rows::<P>(count, hd));
    let queries = value_rows::<P>(P::BLOCK, hd);
    let len = 2 * transposed + rows + (2 * P::BLOCK + P::ROWS) * stride + 3 * queries + segment.gathered(hd);
    let mut buffer = Buffer::new(len);
    let mut free = buffer.as_mut_ptr();
    let mut part = |len: usize| {
        let begin = free;
        free = free.wrapping_add(len);
        begin
    };
    let [keys_t, values_t, keys] = [part(transposed), part(transposed), part(rows)];
    let [p, ds, rounded] = [part(P::BLOCK * stride), part(P::BLOCK * stride), part(P::ROWS * stride)];
    let of_block = [part(queries), part(queries), part(queries)];
    let gathered = part(segment.gathered(hd)).cast();
    let mut products = P::begin();
    let (extents, head_of_rows) = ((count, hd), (kd, task.kv * hd, hd));
    // SAFETY: rows of the segment's path are inside the checked tensors, and the parts of the buffer do not overlap.
    let (keys_t, values_t, keys) = unsafe {
        let (v, v_row) = segment.head_rows(saved.v, head_of_rows, gathered);
        let values_t = P::columns_of(extents, v, v_row, values_t.cast(), stride);
        let (k, k_row) = segment.head_rows(saved.k, head_of_rows, gathered);
        let keys_t = P::columns_of(extents, k, k_row, keys_t.cast(), stride);
        (keys_t, values_t, P::steps_of(extents, k, k_row, keys.cast()))
    };
    // Whole key tiles end at the first query, so that a tile belongs either to the ancestors or to the segment itself.
    let first_whole = segment.depth % P::ROWS;
    let tile_of = |key: usize| if key < first_whole { 0 } else { key - (key - first_whole) % P::ROWS };
    let unseen = tile_of(mask.first_key(segment.depth)).min(segment.depth);
    for (position, gradients) in (0..unseen).flat_map(|position| [(position, grads.k), (position, grads.v)]) {
        // SAFETY: the columns of this key/value head of the segment's copies belong to this task.
        unsafe { gradients.at(segment, position, kd).add(task.kv * hd).write_bytes(0, hd) }
    }
    for head in task.kv * group..(task.kv + 1) * group {
        let slope = mask.slope(head);
        for block in (segment.depth..segment.keys()).step_by(P::BLOCK) {
            let count = P::BLOCK.min(segment.keys() - block);
            let block_at = segment.row(block) * qd + head * hd;
            // SAFETY: as above.
            let operands = unsafe {
                let extents = (count, hd);
                let [rows, dout_steps, q_steps] = of_block.map(|part| part.cast::<P::Value>());
                let dout = P::rows_of(extents, saved.dout[block_at..].as_ptr(), qd, rows);
                let dout_steps = P::query_steps(extents, dout.at, dout.row, dout_steps);
                let q_steps = P::query_steps(extents, saved.q[block_at..].as_ptr(), qd, q_steps);
                BlockOperands { dout, steps: [dout_steps, q_steps] }
            };
            for first in (block..block + count).step_by(P::ROWS) {
                let rows = P::ROWS.min(block + count - first);
                let (begin, seen) = (tile_begin::<P>(mask, first), first + rows);
                let end = seen.next_multiple_of(P::STEPS);
                let row = segment.row(first);
                let at = row * qd + head * hd;
                let (p, ds) = (p.wrapping_add((first - block) * stride), ds.wrapping_add((first - block) * stride));
                // A key tile may begin before the first visible key.
                let read = begin.saturating_sub(P::ROWS)..end;
                // SAFETY: as above; the rows of dq belong to this task.
                unsafe {
                    let q = Left { at: saved.q[at..].as_ptr(), row: qd, k: 1 };
                    let dout = operands.dout;
                    let dout = Left { at: dout.at.wrapping_add((first - block) * dout.row), ..dout };
                    row_products(&mut products, (rows, hd, begin..seen), q, keys_t, p, stride);
                    row_products(&mut products, (rows, hd, begin..seen), dout, values_t, ds, stride);
                    let p_rows = std::slice::from_raw_parts_mut(p, rows * stride).chunks_exact_mut(stride);
                    let ds_rows = std::slice::from_raw_parts_mut(ds, rows * stride).chunks_exact_mut(stride);
                    simd::vectorized(
                        #[inline(always)]
                        || {
                            for (i, (p, ds)) in p_rows.zip(ds_rows).enumerate() {
                                let o = at + i * qd;
                                let dout = std::slice::from_raw_parts(dout.at.wrapping_add(i * dout.row), hd);
                                // Of the output gradients as rounded for dP.
                                let delta = simd::dot(&saved.out[o..o + hd], dout);
                                let lse = saved.lse[(row + i) * heads.query + head];
                                let keys = mask.first_key(first + i)..first + i + 1;
                                scores_backward((p, ds), keys, read.clone(), (scale, slope), (lse, delta));
                            }
                        },
                    );
                    let scores = P::rows_of((rows, end - begin), ds.wrapping_add(begin), stride, rounded.cast());
                    let keys = Right { at: keys.at.wrapping_add(begin * hd), ..keys };
                    for column in (0..hd).step_by(COLUMNS) {
                        let extents = (rows, end - begin, COLUMNS.min(hd - column));
                        let target = Target::new(grads.q.at(at + column), qd);
                        products.tile(extents, scores, P::columns(keys, column), target, Output::Overwrite);
                    }
                    for scores in [p, ds] {
                        P::stack((rows, read.len()), scores.wrapping_add(read.start), stride);
                    }
                }
            }
            let first_head = head == task.kv * group;
            let mut key = tile_of(mask.first_key(block));
            while key < block + count {
                let next = if key < first_whole { first_whole } else { key + P::ROWS };
                let rows = next.min(block + count) - key;
                // Queries before the key, or a window after it, do not attend to it.
                let from = key.saturating_sub(block);
                let end = count.min(mask.end_of_queries(key + rows - 1) - block);
                // The block with the key's own query is the first that attends to it; the very first block for keys of an
                // ancestor.
                let is_first_block = key >= if block == segment.depth { 0 } else { block };
                let output = if first_head && is_first_block { Output::Overwrite } else { Output::Accumulate };
                let [dout, q] = operands.steps;
                for (scores, right, target) in [(p, dout, grads.v), (ds, q, grads.k)] {
                    let steps = (end - from).next_multiple_of(P::STEPS);
                    // SAFETY: as above.
                    let left = unsafe {
                        P::transposed((rows, steps), scores.wrapping_add(from * stride + key), stride, rounded.cast())
                    };
                    let right = Right { at: right.at.wrapping_add(from * right.k), ..right };
                    let target = target.at(segment, key, kd).wrapping_add(task.kv * hd);
                    for column in (0..hd).step_by(COLUMNS) {
                        // A query that does not attend to the keys adds zeros.
                        let extents = (rows, steps, COLUMNS.min(hd - column));
                        let target = Target::new(target.wrapping_add(column), kd);
                        // SAFETY: as above; the columns of this key/value head belong to this task.
                        unsafe { products.tile(extents, left, P::columns(right, column), target, output) }
                    }
                }
                key += rows;
            }
        }
    }
}

/// Replaces products by probabilities in `p`, and the gradients of probabilities by those of the products in `ds`; zeros
/// in the columns of `read` outside `keys`.
#[inline(always)]
fn scores_backward(
    (p, ds): (&mut [f32], &mut [f32]),
    keys: Range<usize>,
    read: Range<usize>,
    (scale, slope): (f32, Option<f32>),
    (lse, delta): (f32, f32),
) {
    let factor = biased(&mut p[keys.clone()], (scale, slope));
    let whole = keys.start / LANES * LANES..keys.end.next_multiple_of(LANES);
    let (p_chunks, _) = p[whole.clone()].as_chunks_mut::<LANES>();
    let (ds_chunks, _) = ds[whole].as_chunks_mut::<LANES>();
    for (p, ds) in p_chunks.iter_mut().zip(ds_chunks) {
        for i in 0..LANES {
            p[i] = simd::exp(p[i].mul_add(factor, -lse));
            ds[i] = p[i] * ((ds[i] - delta) * scale);
        }
    }
    for row in [p, ds] {
        row[read.start.min(keys.start)..keys.start].fill(0.0);
        row[keys.end..read.end].fill(0.0);
    }
}
