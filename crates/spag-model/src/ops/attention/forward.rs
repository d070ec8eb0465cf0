use std::ops::Range;

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::{Heads, Held, LogSumExp, Mask, Sequences, Task, check, device, key_stride, tasks, tile_begin};
use crate::kernels;
use crate::ops::cpu::{self, SharedMut};
use crate::ops::product::{Buffer, COLUMNS, LANES, Left, Output, ROWS, Right, Target, tile, transpose};
use crate::ops::{pool, simd};

/// Returns the attention output [N, H·head size] and the log-sum-exps for the backward pass.
///
/// # Errors
/// Mismatched shapes or slopes, tensors that are not contiguous f32 (kernels also accept bf16), or a head size above 256 with
/// kernels.
pub fn forward(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    sequences: &Sequences,
    heads: Heads,
    mask: &Mask,
) -> Result<(Tensor, LogSumExp)> {
    let n = check(q, k, v, sequences, heads, mask)?;
    if let Some(kernels) = kernels::of(q.device())? {
        let (out, lse) = device::forward(&*kernels, (q, k, v), sequences, heads, mask)?;
        return Ok((out, LogSumExp(Held::Device(lse))));
    }
    let qd = heads.query * heads.dim;
    let mut out = pool::values(n * qd);
    let mut lse = vec![0f32; n * heads.query];
    let targets = (SharedMut::new(&mut out), SharedMut::new(&mut lse));
    cpu::read(q, |q| {
        cpu::read(k, |k| {
            cpu::read(v, |v| {
                tasks(sequences.bounds(), heads).into_par_iter().for_each(|task| {
                    // SAFETY: the tensors were checked; a key/value head owns its group of query heads, so the outputs
                    // and log-sum-exps of (sequence, group) belong to this task only.
                    unsafe { task_forward(&task, [q, k, v], heads, mask, targets) }
                });
                Ok(())
            })
        })
    })?;
    Ok((cpu::tensor(out, (n, qd))?, LogSumExp(Held::Host(lse))))
}

/// # Safety
/// The slices must have the shapes of the checked tensors; nothing else may use the task's outputs.
unsafe fn task_forward(
    task: &Task,
    [q, k, v]: [&[f32]; 3],
    heads: Heads,
    mask: &Mask,
    (out, lse): (SharedMut, SharedMut),
) {
    let (qd, kd, hd) = (heads.query * heads.dim, heads.kv * heads.dim, heads.dim);
    let (group, scale) = (heads.query / heads.kv, 1.0 / (hd as f32).sqrt());
    let stride = key_stride(task.len);
    let (keys_len, values_len) = (hd * stride, (task.len * hd).next_multiple_of(LANES));
    let mut buffer = Buffer::new(keys_len + values_len + ROWS * stride);
    let keys_t = buffer.as_mut_ptr();
    let (values, scores) = (keys_t.wrapping_add(keys_len), keys_t.wrapping_add(keys_len + values_len));
    let at = task.start * kd + task.kv * hd;
    // SAFETY: rows of the task's sequence are inside the checked tensors, and the parts of the buffer do not overlap.
    unsafe {
        transpose((task.len, hd), k[at..].as_ptr(), kd, keys_t, stride);
        copy_rows((task.len, hd), v[at..].as_ptr(), kd, values);
    }
    for head in task.kv * group..(task.kv + 1) * group {
        let slope = mask.slope(head);
        for first in (0..task.len).step_by(ROWS) {
            let rows = ROWS.min(task.len - first);
            let (begin, seen) = (tile_begin(mask, first), first + rows);
            let q_at = (task.start + first) * qd + head * hd;
            let queries = Left { at: q[q_at..].as_ptr(), row: qd, k: 1 };
            // SAFETY: as above; the rows of `out` and `lse` belong to this task.
            unsafe {
                row_products((rows, hd, begin..seen), queries, keys_t, stride, scores);
                let tile_scores = std::slice::from_raw_parts_mut(scores, rows * stride);
                let mut inverse = [0f32; ROWS];
                simd::vectorized(
                    #[inline(always)]
                    || {
                        for (i, row) in tile_scores.chunks_exact_mut(stride).enumerate() {
                            let keys = mask.first_key(first + i)..first + i + 1;
                            let (sum, top) = exponentials(row, keys, begin..seen, (scale, slope));
                            inverse[i] = 1.0 / sum;
                            *lse.at((task.start + first + i) * heads.query + head) = top + sum.ln();
                        }
                    },
                );
                let probabilities = Left { at: scores.wrapping_add(begin), row: stride, k: 1 };
                let values = Right::new(values.wrapping_add(begin * hd), hd);
                for column in (0..hd).step_by(COLUMNS) {
                    let target = Target::new(out.at(q_at + column), qd);
                    let extents = (rows, seen - begin, COLUMNS.min(hd - column));
                    tile(extents, probabilities, values.columns(column), target, Output::Overwrite);
                }
                for (i, inverse) in inverse.iter().enumerate().take(rows) {
                    for o in std::slice::from_raw_parts_mut(out.at(q_at + i * qd), hd) {
                        *o *= inverse;
                    }
                }
            }
        }
    }
}

/// Replaces the scores of the `keys` that a row sees by exp(score − max), where a score is `scale`·product + slope·(key −
/// last key), and the other columns of `read` by zeros. Returns the sum and the maximum.
#[inline(always)]
pub(crate) fn exponentials(
    row: &mut [f32],
    keys: Range<usize>,
    read: Range<usize>,
    (scale, slope): (f32, Option<f32>),
) -> (f32, f32) {
    // Whole registers, so that a key is always in the same lane. Elements outside `keys` add less than 1e-36.
    let begin = keys.start / LANES * LANES;
    let whole = &mut row[begin..keys.end.next_multiple_of(LANES)];
    whole[..keys.start - begin].fill(f32::NEG_INFINITY);
    whole[keys.end - begin..].fill(f32::NEG_INFINITY);
    let scale = biased(&mut whole[keys.start - begin..keys.end - begin], (scale, slope));
    let top = simd::max(whole) * scale;
    let sum = simd::map_sum(whole, |s| simd::exp(s.mul_add(scale, -top)));
    row[read.start.min(keys.start)..keys.start].fill(0.0);
    row[keys.end..read.end].fill(0.0);
    (sum, top)
}

/// Scales a row's products and adds the slope times the distance to the last of them, which is the query's own key.
/// Without a slope they stay as they are. Returns the factor that remains to be applied.
#[inline(always)]
pub(super) fn biased(products: &mut [f32], (scale, slope): (f32, Option<f32>)) -> f32 {
    let Some(slope) = slope else { return scale };
    let last = products.len() as i32 - 1;
    for (key, s) in products.iter_mut().enumerate() {
        *s = s.mul_add(scale, slope * (key as i32 - last) as f32);
    }
    1.0
}

/// `scores[rows, n]` = left·keysᵀ for the keys `n`, with row stride `stride`.
///
/// # Safety
/// As [`tile`].
pub(super) unsafe fn row_products(
    (rows, k, n): (usize, usize, Range<usize>),
    left: Left,
    keys_t: *const f32,
    stride: usize,
    scores: *mut f32,
) {
    for column in n.clone().step_by(COLUMNS) {
        let right = Right::new(keys_t, stride).columns(column);
        let target = Target::new(scores.wrapping_add(column), stride);
        // SAFETY: guaranteed by the caller.
        unsafe { tile((rows, k, COLUMNS.min(n.end - column)), left, right, target, Output::Overwrite) }
    }
}

/// Copies rows with stride `stride` to `to[rows, width]`.
///
/// # Safety
/// The elements must be readable and `to` writable.
pub(super) unsafe fn copy_rows((rows, width): (usize, usize), from: *const f32, stride: usize, to: *mut f32) {
    for row in 0..rows {
        // SAFETY: guaranteed by the caller.
        unsafe { std::ptr::copy_nonoverlapping(from.add(row * stride), to.add(row * width), width) }
    }
}
