use std::ops::Range;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::forward::{biased, copy_rows, row_products};
use super::{Heads, Held, LogSumExp, Mask, Sequences, Task, check, device, key_stride, tasks, tile_begin};
use crate::kernels;
use crate::ops::cpu::{self, SharedMut};
use crate::ops::product::{Buffer, COLUMNS, LANES, Left, Output, ROWS, Right, Target, tile, transpose};
use crate::ops::{pool, simd};

/// Queries whose probabilities are held at a time, for the gradients of keys and values; a multiple of [`ROWS`].
const BLOCK: usize = 8 * ROWS;

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
    let (qd, kd) = (heads.query * heads.dim, heads.kv * heads.dim);
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
    let (mut dq, mut dk, mut dv) = (pool::values(n * qd), pool::values(n * kd), pool::values(n * kd));
    let grads = Gradients { q: SharedMut::new(&mut dq), k: SharedMut::new(&mut dk), v: SharedMut::new(&mut dv) };
    cpu::read(q, |q| {
        cpu::read(k, |k| {
            cpu::read(v, |v| {
                cpu::read(out, |out| {
                    cpu::read(dout, |dout| {
                        let saved = Saved { q, k, v, out, dout, lse };
                        tasks(sequences.bounds(), heads).into_par_iter().for_each(|task| {
                            // SAFETY: the tensors were checked; the gradients of (sequence, key/value head with its
                            // group of query heads) belong to this task only.
                            unsafe { task_backward(&task, &saved, heads, mask, grads) }
                        });
                        Ok(())
                    })
                })
            })
        })
    })?;
    Ok((cpu::tensor(dq, (n, qd))?, cpu::tensor(dk, (n, kd))?, cpu::tensor(dv, (n, kd))?))
}

/// The forward pass's tensors as slices.
struct Saved<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    out: &'a [f32],
    dout: &'a [f32],
    lse: &'a [f32],
}

/// The gradient buffers.
#[derive(Clone, Copy)]
struct Gradients {
    q: SharedMut,
    k: SharedMut,
    v: SharedMut,
}

/// dV += Pᵀ·dO, dP = dO·Vᵀ, dS = P∘(dP − rowsum(dO∘O))·scale, dQ = dS·K, dK += dSᵀ·Q, block by block.
///
/// # Safety
/// The slices must have the shapes of the checked tensors; nothing else may use the task's gradients.
unsafe fn task_backward(task: &Task, saved: &Saved<'_>, heads: Heads, mask: &Mask, grads: Gradients) {
    let (qd, kd, hd) = (heads.query * heads.dim, heads.kv * heads.dim, heads.dim);
    let (group, scale) = (heads.query / heads.kv, 1.0 / (hd as f32).sqrt());
    let stride = key_stride(task.len);
    let (transposed, rows) = (hd * stride, (task.len * hd).next_multiple_of(LANES));
    let mut buffer = Buffer::new(2 * transposed + rows + 2 * BLOCK * stride);
    let keys_t = buffer.as_mut_ptr();
    let values_t = keys_t.wrapping_add(transposed);
    let keys = values_t.wrapping_add(transposed);
    let p = keys.wrapping_add(rows);
    let ds = p.wrapping_add(BLOCK * stride);
    let kv_at = task.start * kd + task.kv * hd;
    // SAFETY: rows of the task's sequence are inside the checked tensors, and the parts of the buffer do not overlap.
    unsafe {
        transpose((task.len, hd), saved.k[kv_at..].as_ptr(), kd, keys_t, stride);
        transpose((task.len, hd), saved.v[kv_at..].as_ptr(), kd, values_t, stride);
        copy_rows((task.len, hd), saved.k[kv_at..].as_ptr(), kd, keys);
    }
    for head in task.kv * group..(task.kv + 1) * group {
        let slope = mask.slope(head);
        for block in (0..task.len).step_by(BLOCK) {
            let count = BLOCK.min(task.len - block);
            for first in (block..block + count).step_by(ROWS) {
                let rows = ROWS.min(block + count - first);
                let (begin, seen) = (tile_begin(mask, first), first + rows);
                let at = (task.start + first) * qd + head * hd;
                let (p, ds) = (p.wrapping_add((first - block) * stride), ds.wrapping_add((first - block) * stride));
                // SAFETY: as above; the rows of dq belong to this task.
                unsafe {
                    let left = |from: &[f32]| Left { at: from[at..].as_ptr(), row: qd, k: 1 };
                    row_products((rows, hd, begin..seen), left(saved.q), keys_t, stride, p);
                    row_products((rows, hd, begin..seen), left(saved.dout), values_t, stride, ds);
                    let p_rows = std::slice::from_raw_parts_mut(p, rows * stride).chunks_exact_mut(stride);
                    let ds_rows = std::slice::from_raw_parts_mut(ds, rows * stride).chunks_exact_mut(stride);
                    simd::vectorized(
                        #[inline(always)]
                        || {
                            for (i, (p, ds)) in p_rows.zip(ds_rows).enumerate() {
                                let o = at + i * qd;
                                let delta = simd::dot(&saved.out[o..o + hd], &saved.dout[o..o + hd]);
                                let lse = saved.lse[(task.start + first + i) * heads.query + head];
                                let keys = mask.first_key(first + i)..first + i + 1;
                                // A tile of keys may begin before the keys of this one.
                                let read = begin.saturating_sub(ROWS)..seen;
                                scores_backward((p, ds), keys, read, (scale, slope), (lse, delta));
                            }
                        },
                    );
                    for column in (0..hd).step_by(COLUMNS) {
                        let extents = (rows, seen - begin, COLUMNS.min(hd - column));
                        let left = Left { at: ds.wrapping_add(begin), row: stride, k: 1 };
                        let right = Right::new(keys.wrapping_add(begin * hd), hd).columns(column);
                        let target = Target::new(grads.q.at(at + column), qd);
                        tile(extents, left, right, target, Output::Overwrite);
                    }
                }
            }
            let at = (task.start + block) * qd + head * hd;
            let first_head = head == task.kv * group;
            for key in (mask.first_key(block) / ROWS * ROWS..block + count).step_by(ROWS) {
                let rows = ROWS.min(block + count - key);
                // Queries before the key, or a window after it, do not attend to it.
                let from = key.saturating_sub(block);
                let end = count.min(mask.end_of_queries(key + rows - 1) - block);
                // The block with the key's own query is the first that attends to it.
                let output = if first_head && key >= block { Output::Overwrite } else { Output::Accumulate };
                for (scores, right, target) in [(p, saved.dout, grads.v), (ds, saved.q, grads.k)] {
                    let left = Left { at: scores.wrapping_add(from * stride + key), row: 1, k: stride };
                    let right = Right::new(right[at + from * qd..].as_ptr(), qd);
                    for column in (0..hd).step_by(COLUMNS) {
                        let extents = (rows, end - from, COLUMNS.min(hd - column));
                        let target = Target::new(target.at(kv_at + key * kd + column), kd);
                        // SAFETY: as above; the columns of this key/value head belong to this task.
                        unsafe { tile(extents, left, right.columns(column), target, output) }
                    }
                }
            }
        }
    }
}

/// Replaces products by probabilities in `p`, and their gradients by the products' gradients in `ds`; zeros in the columns
/// of `read` outside `keys`.
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
