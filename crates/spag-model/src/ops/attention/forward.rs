use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::{Heads, Held, LogSumExp, Sequences, Task, check, device, key_stride, tasks};
use crate::kernels;
use crate::ops::cpu::{self, SharedMut};
use crate::ops::product::{Buffer, COLUMNS, LANES, Left, Output, ROWS, Right, Target, tile, transpose};
use crate::ops::{pool, simd};

/// Returns the attention output [N, H·head size] and the log-sum-exps for the backward pass.
///
/// # Errors
/// Mismatched shapes, tensors that are not contiguous f32 (kernels also accept bf16), or a head size above 256 with
/// kernels.
pub fn forward(q: &Tensor, k: &Tensor, v: &Tensor, sequences: &Sequences, heads: Heads) -> Result<(Tensor, LogSumExp)> {
    let n = check(q, k, v, sequences, heads)?;
    if let Some(kernels) = kernels::of(q.device())? {
        let (out, lse) = device::forward(&*kernels, (q, k, v), sequences, heads)?;
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
                    unsafe { task_forward(&task, q, k, v, heads, targets) }
                });
                Ok(())
            })
        })
    })?;
    Ok((cpu::tensor(out, (n, qd))?, LogSumExp(Held::Host(lse))))
}

/// # Safety
/// The slices must have the shapes of the checked tensors; nothing else may use the task's outputs.
unsafe fn task_forward(task: &Task, q: &[f32], k: &[f32], v: &[f32], heads: Heads, (out, lse): (SharedMut, SharedMut)) {
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
        for first in (0..task.len).step_by(ROWS) {
            let rows = ROWS.min(task.len - first);
            let seen = first + rows;
            let q_at = (task.start + first) * qd + head * hd;
            let queries = Left { at: q[q_at..].as_ptr(), row: qd, k: 1 };
            // SAFETY: as above; the rows of `out` and `lse` belong to this task.
            unsafe {
                row_products((rows, hd, seen), queries, keys_t, stride, scores);
                let tile_scores = std::slice::from_raw_parts_mut(scores, rows * stride);
                let mut inverse = [0f32; ROWS];
                simd::vectorized(
                    #[inline(always)]
                    || {
                        for (i, row) in tile_scores.chunks_exact_mut(stride).enumerate() {
                            let (sum, top) = exponentials(row, first + i + 1, seen, scale);
                            inverse[i] = 1.0 / sum;
                            *lse.at((task.start + first + i) * heads.query + head) = top + sum.ln();
                        }
                    },
                );
                let probabilities = Left { at: scores, row: stride, k: 1 };
                for column in (0..hd).step_by(COLUMNS) {
                    let target = Target::new(out.at(q_at + column), qd);
                    let extents = (rows, seen, COLUMNS.min(hd - column));
                    tile(extents, probabilities, Right::new(values, hd).columns(column), target, Output::Overwrite);
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

/// Replaces the first `seen` scores of a row by exp(`scale`·score − max), and those up to `end` by zeros. Returns the
/// sum and the maximum.
#[inline(always)]
pub(crate) fn exponentials(row: &mut [f32], seen: usize, end: usize, scale: f32) -> (f32, f32) {
    // Whole registers: elements beyond `seen` add less than 1e-36.
    let whole = &mut row[..seen.next_multiple_of(LANES)];
    whole[seen..].fill(f32::NEG_INFINITY);
    let top = simd::max(whole) * scale;
    let sum = simd::map_sum(whole, |s| simd::exp(s.mul_add(scale, -top)));
    row[seen..end].fill(0.0);
    (sum, top)
}

/// `scores[rows, n]` = left·keysᵀ, with row stride `stride`.
///
/// # Safety
/// As [`tile`].
pub(super) unsafe fn row_products(
    (rows, k, n): (usize, usize, usize),
    left: Left,
    keys_t: *const f32,
    stride: usize,
    scores: *mut f32,
) {
    for column in (0..n).step_by(COLUMNS) {
        let right = Right::new(keys_t, stride).columns(column);
        let target = Target::new(scores.wrapping_add(column), stride);
        // SAFETY: guaranteed by the caller.
        unsafe { tile((rows, k, COLUMNS.min(n - column)), left, right, target, Output::Overwrite) }
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
