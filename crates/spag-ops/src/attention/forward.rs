use std::ops::Range;

use candle_core::{DType, Result, Tensor};
use rayon::prelude::*;

#[cfg(target_arch = "x86_64")]
use super::products::{InBf16, is_paired};
use super::products::{InF32, MAX_ROWS, Products};
#[cfg(target_arch = "x86_64")]
use super::tiles::{InTiles, is_tiled};
use super::{Heads, Held, LogSumExp, Mask, Sequences, Task, check, device, key_stride, tasks, tile_begin};
use crate::cast::{narrowed, widened};
use crate::cpu::{self, SharedMut, Stored};
use crate::kernels;
use crate::matmul::Arithmetic;
use crate::product::{Buffer, COLUMNS, Element, LANES, Left, Output, Right, Target};
use crate::{pool, simd};

/// Computes the attention output [N, H·head size] and the log-sum-exps for the backward pass. `q`, `k`, `v` and the output
/// share one number format.
///
/// On a CPU with AVX512-BF16, bf16 tensors are multiplied in bf16, with probabilities rounded to bf16; other CPUs convert them
/// to f32. Accumulation and the softmax are in f32.
///
/// # Errors
/// Mismatched shapes or slopes, tensors that are not contiguous f32 or bf16, or a head size above 256 with kernels.
pub fn forward(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    sequences: &Sequences,
    heads: Heads,
    mask: &Mask,
) -> Result<(Tensor, LogSumExp)> {
    forward_in([q, k, v], sequences, heads, mask, Arithmetic::Bf16)
}

/// [`forward`] with a choice of the CPU arithmetic for bf16 tensors: [`Arithmetic::Bf16`] is fastest; [`Arithmetic::F32`] converts
/// them to f32 and is bit-identical to [paged attention](crate::paged_attention).
///
/// # Errors
/// As [`forward`].
pub fn forward_in(
    [q, k, v]: [&Tensor; 3],
    sequences: &Sequences,
    heads: Heads,
    mask: &Mask,
    arithmetic: Arithmetic,
) -> Result<(Tensor, LogSumExp)> {
    check(q, k, v, sequences, heads, mask)?;
    if let Some(kernels) = kernels::of(q.device())? {
        let (out, lse) = device::forward(&*kernels, (q, k, v), sequences, heads, mask)?;
        return Ok((out, LogSumExp(Held::Device(lse))));
    }
    let (out, lse) = match q.dtype() {
        DType::BF16 if arithmetic == Arithmetic::F32 => widened_forward([q, k, v], sequences, heads, mask)?,
        #[cfg(target_arch = "x86_64")]
        DType::BF16 if is_tiled(heads) => run::<InTiles>([q, k, v], sequences, heads, mask)?,
        #[cfg(target_arch = "x86_64")]
        DType::BF16 if is_paired(heads) => run::<InBf16>([q, k, v], sequences, heads, mask)?,
        DType::BF16 => widened_forward([q, k, v], sequences, heads, mask)?,
        _ => run::<InF32>([q, k, v], sequences, heads, mask)?,
    };
    Ok((out, LogSumExp(Held::Host(lse))))
}

/// [`forward`] of bf16 tensors on a CPU, in f32 arithmetic.
fn widened_forward(
    [q, k, v]: [&Tensor; 3],
    sequences: &Sequences,
    heads: Heads,
    mask: &Mask,
) -> Result<(Tensor, Vec<f32>)> {
    let [q, k, v] = [widened(q)?, widened(k)?, widened(v)?];
    let (out, lse) = run::<InF32>([&q, &k, &v], sequences, heads, mask)?;
    Ok((narrowed(out)?, lse))
}

/// [`forward`] on a CPU.
fn run<P: Products>(
    [q, k, v]: [&Tensor; 3],
    sequences: &Sequences,
    heads: Heads,
    mask: &Mask,
) -> Result<(Tensor, Vec<f32>)> {
    let (n, qd) = (q.dim(0)?, heads.query * heads.dim);
    let mut out = pool::values::<P::Value>(n * qd);
    let mut lse = vec![0f32; n * heads.query];
    let targets = (SharedMut::new(&mut out), SharedMut::new(&mut lse));
    P::Value::read(q, |q| {
        P::Value::read(k, |k| {
            P::Value::read(v, |v| {
                tasks(sequences, heads).into_par_iter().for_each(|task| {
                    // SAFETY: the tensors were checked; a key/value head owns its group of query heads, so the outputs
                    // and log-sum-exps of (segment, group) belong to this task only.
                    unsafe { task_forward::<P>(&task, [q, k, v], heads, mask, targets) }
                });
                Ok(())
            })
        })
    })?;
    Ok((cpu::tensor(out, (n, qd))?, lse))
}

/// # Safety
/// The slices must have the shapes of the checked tensors; nothing else may use the task's outputs.
unsafe fn task_forward<P: Products>(
    task: &Task<'_>,
    [q, k, v]: [&[P::Value]; 3],
    heads: Heads,
    mask: &Mask,
    (out, lse): (SharedMut<P::Value>, SharedMut),
) {
    let (qd, kd, hd) = (heads.query * heads.dim, heads.kv * heads.dim, heads.dim);
    let (group, scale) = (heads.query / heads.kv, mask.scale(hd));
    let (segment, count) = (task.segment, task.segment.keys());
    let stride = key_stride(count);
    let (keys_len, values_len) = (hd * stride, value_rows::<P>(count, hd));
    let (tile_len, sums_len) = (P::ROWS * stride, P::ROWS * hd);
    let sums_len = sums_len.next_multiple_of(LANES) + LANES;
    let mut buffer = Buffer::new(keys_len + values_len + 2 * tile_len + sums_len + segment.gathered(hd));
    let mut products = P::begin();
    let keys = buffer.as_mut_ptr();
    let values = keys.wrapping_add(keys_len);
    let scores = values.wrapping_add(values_len);
    let rounded = scores.wrapping_add(tile_len);
    let sums = rounded.wrapping_add(tile_len);
    let gathered = sums.wrapping_add(sums_len).cast();
    let head_of_rows = (kd, task.kv * hd, hd);
    // SAFETY: rows of the segment's path are inside the checked tensors, and the parts of the buffer do not overlap.
    let (keys, values) = unsafe {
        let (k, k_row) = segment.head_rows(k, head_of_rows, gathered);
        let keys = P::columns_of((count, hd), k, k_row, keys.cast(), stride);
        let (v, v_row) = segment.head_rows(v, head_of_rows, gathered);
        (keys, P::steps_of((count, hd), v, v_row, values.cast()))
    };
    for head in task.kv * group..(task.kv + 1) * group {
        let slope = mask.slope(head);
        for first in (segment.depth..count).step_by(P::ROWS) {
            let rows = P::ROWS.min(count - first);
            let (begin, seen) = (tile_begin::<P>(mask, first), first + rows);
            let end = seen.next_multiple_of(P::STEPS);
            let row = segment.row(first);
            let q_at = row * qd + head * hd;
            let queries = Left { at: q[q_at..].as_ptr(), row: qd, k: 1 };
            // SAFETY: as above; the rows of `out` and `lse` belong to this task.
            unsafe {
                row_products(&mut products, (rows, hd, begin..seen), queries, keys, scores, stride);
                let tile_scores = std::slice::from_raw_parts_mut(scores, rows * stride);
                let mut inverse = [0f32; MAX_ROWS];
                simd::vectorized(
                    #[inline(always)]
                    || {
                        for (i, scores) in tile_scores.chunks_exact_mut(stride).enumerate() {
                            let keys = mask.first_key(first + i)..first + i + 1;
                            let (sum, top) = exponentials(scores, keys, begin..end, (scale, slope));
                            inverse[i] = 1.0 / sum;
                            *lse.at((row + i) * heads.query + head) = top + sum.ln();
                        }
                    },
                );
                let extents = (rows, end - begin);
                let probabilities = P::rows_of(extents, scores.wrapping_add(begin), stride, rounded.cast());
                let values = Right { at: values.at.wrapping_add(begin * hd), ..values };
                for column in (0..hd).step_by(COLUMNS) {
                    let target = Target::new(sums.wrapping_add(column), hd);
                    let extents = (rows, end - begin, COLUMNS.min(hd - column));
                    products.tile(extents, probabilities, P::columns(values, column), target, Output::Overwrite);
                }
                for (i, inverse) in inverse.iter().enumerate().take(rows) {
                    let sums = std::slice::from_raw_parts(sums.add(i * hd), hd);
                    let out = std::slice::from_raw_parts_mut(out.at(q_at + i * qd), hd);
                    for (out, sum) in out.iter_mut().zip(sums) {
                        *out = P::Value::nearest(sum * inverse);
                    }
                }
            }
        }
    }
}

/// Elements of a buffer for [`Products::steps_of`] of `rows` rows, padded because registers beyond the last row may
/// be read.
pub(super) fn value_rows<P: Products>(rows: usize, width: usize) -> usize {
    (rows.next_multiple_of(P::STEPS) * width).next_multiple_of(LANES) + LANES
}

/// Replaces the scores of the visible `keys` of a row by exp(score − max), where a score is `scale`·product + slope·(key
/// − last key), and the other columns of `read` by zeros. Returns the sum and the maximum.
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

/// Scales a row's products and adds the slope times the distance to the last of them, the query's own key. Without
/// a slope they are unchanged. Returns the factor that remains to be applied.
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
/// As [`Products::tile`].
pub(super) unsafe fn row_products<P: Products>(
    products: &mut P,
    (rows, k, n): (usize, usize, Range<usize>),
    left: Left<P::Value>,
    keys: Right<P::Value>,
    scores: *mut f32,
    stride: usize,
) {
    for column in n.clone().step_by(COLUMNS) {
        let target = Target::new(scores.wrapping_add(column), stride);
        let extents = (rows, k, COLUMNS.min(n.end - column));
        // SAFETY: guaranteed by the caller.
        unsafe { products.tile(extents, left, P::columns(keys, column), target, Output::Overwrite) }
    }
}
