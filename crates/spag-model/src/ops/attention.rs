//! Causal attention over packed sequences of any lengths, forward and backward, without a T×T matrix.
//!
//! Queries go in blocks; a block sees only the keys before its end, so that the masked half costs nothing and scratch
//! memory is one block by the sequence length. The backward pass recomputes the probabilities from the saved
//! log-sum-exp (Dao et al. 2022). Heads may be grouped: H query heads share H/G key/value heads.
//!
//! Shapes: `q` [N, H·head size], `k`, `v` [N, KV·head size]; sequences are given by `bounds`.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::cpu::{self, SharedMut};
use super::matmul::{Output, Strides, Threads, gemm, row_major, transposed};
use super::simd;

/// Queries a block holds.
const BLOCK: usize = 64;

/// Sizes of the heads.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key/value heads; divides `query`.
    pub kv: usize,
    /// Size of a head.
    pub dim: usize,
}

/// What the backward pass needs besides q, k, v and the output: the log-sum-exp of every row and head, [N, H].
#[derive(Clone, Debug)]
pub struct LogSumExp(Vec<f32>);

fn check(q: &Tensor, k: &Tensor, v: &Tensor, bounds: &[u32], heads: Heads) -> Result<usize> {
    let n = q.dim(0)?;
    let (qd, kd) = (heads.query * heads.dim, heads.kv * heads.dim);
    if q.dims() != [n, qd]
        || k.dims() != [n, kd]
        || v.dims() != [n, kd]
        || heads.kv == 0
        || !heads.query.is_multiple_of(heads.kv)
    {
        bail!("attention: q {:?}, k {:?}, v {:?} do not fit {heads:?}", q.dims(), k.dims(), v.dims());
    }
    if bounds.first() != Some(&0) || bounds.last().map(|b| *b as usize) != Some(n) || !bounds.is_sorted() {
        bail!("attention: sequence bounds must rise from 0 to {n}");
    }
    Ok(n)
}

/// One (sequence, key/value head) pair.
struct Task {
    start: usize,
    len: usize,
    kv: usize,
}

/// All pairs, the longest sequences first so that the threads end together.
fn tasks(bounds: &[u32], heads: Heads) -> Vec<Task> {
    let mut tasks: Vec<Task> = bounds
        .windows(2)
        .flat_map(|w| {
            let (start, len) = (w[0] as usize, (w[1] - w[0]) as usize);
            (0..heads.kv).map(move |kv| Task { start, len, kv })
        })
        .filter(|t| t.len > 0)
        .collect();
    tasks.sort_by_key(|t| std::cmp::Reverse(t.len));
    tasks
}

/// Softmax of scaled scores under the causal mask, in place; row i sees `first + i + 1` keys. Returns log-sum-exps.
#[inline(always)]
fn causal_softmax(scores: &mut [f32], keys: usize, first: usize, scale: f32, mut row_lse: impl FnMut(usize, f32)) {
    for (i, row) in scores.chunks_exact_mut(keys).enumerate() {
        let (seen, unseen) = row.split_at_mut(first + i + 1);
        let top = simd::max(seen) * scale;
        for s in seen.iter_mut() {
            *s = simd::exp(*s * scale - top);
        }
        let sum = simd::sum_of(seen, |s| s);
        let inverse = 1.0 / sum;
        for s in seen.iter_mut() {
            *s *= inverse;
        }
        unseen.fill(0.0);
        row_lse(i, top + sum.ln());
    }
}

/// The attention output [N, H·head size] and what the backward pass needs.
///
/// `bounds` are the starts of the sequences and, last, N.
///
/// # Errors
/// Shapes that do not fit, or tensors that are not contiguous f32.
pub fn forward(q: &Tensor, k: &Tensor, v: &Tensor, bounds: &[u32], heads: Heads) -> Result<(Tensor, LogSumExp)> {
    let n = check(q, k, v, bounds, heads)?;
    let (qd, kd, hd) = (heads.query * heads.dim, heads.kv * heads.dim, heads.dim);
    let group = heads.query / heads.kv;
    let scale = 1.0 / (hd as f32).sqrt();
    let mut out = vec![0f32; n * qd];
    let mut lse = vec![0f32; n * heads.query];
    let (out_ptr, lse_ptr) = (SharedMut::new(&mut out), SharedMut::new(&mut lse));
    cpu::read(q, |q| {
        cpu::read(k, |k| {
            cpu::read(v, |v| {
                tasks(bounds, heads).into_par_iter().for_each_init(Vec::new, |scores: &mut Vec<f32>, task| {
                    let kv_at = task.start * kd + task.kv * hd;
                    for head in task.kv * group..(task.kv + 1) * group {
                        for first in (0..task.len).step_by(BLOCK) {
                            let rows = BLOCK.min(task.len - first);
                            let keys = first + rows;
                            let q_at = (task.start + first) * qd + head * hd;
                            scores.resize(rows * keys, 0.0);
                            // SAFETY: rows of this task's sequence lie inside the checked tensors; the output columns
                            // of (sequence, head) belong to this task alone, since a key/value head owns its group.
                            unsafe {
                                gemm(
                                    (rows, hd, keys),
                                    scores.as_mut_ptr(),
                                    row_major(keys),
                                    Output::Overwrite,
                                    q[q_at..].as_ptr(),
                                    row_major(qd),
                                    k[kv_at..].as_ptr(),
                                    transposed(kd),
                                    Threads::One,
                                );
                            }
                            simd::vectorized(
                                #[inline(always)]
                                || {
                                    causal_softmax(&mut scores[..rows * keys], keys, first, scale, |i, value| {
                                        // SAFETY: element (row, head) of the log-sum-exps belongs to this task alone.
                                        unsafe { *lse_ptr.at((task.start + first + i) * heads.query + head) = value }
                                    });
                                },
                            );
                            // SAFETY: as above.
                            unsafe {
                                gemm(
                                    (rows, keys, hd),
                                    out_ptr.at(q_at),
                                    row_major(qd),
                                    Output::Overwrite,
                                    scores.as_ptr(),
                                    row_major(keys),
                                    v[kv_at..].as_ptr(),
                                    row_major(kd),
                                    Threads::One,
                                );
                            }
                        }
                    }
                });
                Ok(())
            })
        })
    })?;
    Ok((cpu::tensor(out, (n, qd))?, LogSumExp(lse)))
}

/// The gradients of q, k and v, given the output of [`forward`], its log-sum-exps and the output's gradient.
///
/// # Errors
/// Shapes that do not fit, or tensors that are not contiguous f32.
#[expect(clippy::too_many_arguments, reason = "the tensors of the forward pass and the gradient")]
pub fn backward(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    out: &Tensor,
    lse: &LogSumExp,
    dout: &Tensor,
    bounds: &[u32],
    heads: Heads,
) -> Result<(Tensor, Tensor, Tensor)> {
    let n = check(q, k, v, bounds, heads)?;
    let (qd, kd) = (heads.query * heads.dim, heads.kv * heads.dim);
    if out.dims() != [n, qd] || dout.dims() != [n, qd] || lse.0.len() != n * heads.query {
        bail!("attention backward: out {:?}, dout {:?} do not fit {heads:?}", out.dims(), dout.dims());
    }
    let (mut dq, mut dk, mut dv) = (vec![0f32; n * qd], vec![0f32; n * kd], vec![0f32; n * kd]);
    let grads = (SharedMut::new(&mut dq), SharedMut::new(&mut dk), SharedMut::new(&mut dv));
    cpu::read(q, |q| {
        cpu::read(k, |k| {
            cpu::read(v, |v| {
                cpu::read(out, |out| {
                    cpu::read(dout, |dout| {
                        let saved = Saved { q, k, v, out, dout, lse: &lse.0 };
                        tasks(bounds, heads).into_par_iter().for_each_init(
                            || (Vec::new(), Vec::new()),
                            |(p, dp), task| task_backward(&task, &saved, heads, grads, p, dp),
                        );
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

/// dV += Pᵀ·dO, dP = dO·Vᵀ, dS = P∘(dP − rowsum(dO∘O))·scale, dQ = dS·K, dK += dSᵀ·Q, block by block.
fn task_backward(
    task: &Task,
    saved: &Saved<'_>,
    heads: Heads,
    (dq, dk, dv): (SharedMut, SharedMut, SharedMut),
    p: &mut Vec<f32>,
    dp: &mut Vec<f32>,
) {
    let (qd, kd, hd) = (heads.query * heads.dim, heads.kv * heads.dim, heads.dim);
    let group = heads.query / heads.kv;
    let scale = 1.0 / (hd as f32).sqrt();
    let kv_at = task.start * kd + task.kv * hd;
    let (q_rows, kv_rows) = (row_major(qd), row_major(kd));
    let kv_columns = transposed(kd);
    for head in task.kv * group..(task.kv + 1) * group {
        for first in (0..task.len).step_by(BLOCK) {
            let rows = BLOCK.min(task.len - first);
            let keys = first + rows;
            let at = (task.start + first) * qd + head * hd;
            let (q, dout) = (saved.q[at..].as_ptr(), saved.dout[at..].as_ptr());
            let (k, v) = (saved.k[kv_at..].as_ptr(), saved.v[kv_at..].as_ptr());
            p.resize(rows * keys, 0.0);
            dp.resize(rows * keys, 0.0);
            let (block, block_t) = (row_major(keys), Strides { row: 1, col: keys });
            // SAFETY: rows of this task's sequence lie inside the checked tensors; p and dp are this thread's own.
            unsafe {
                gemm(
                    (rows, hd, keys),
                    p.as_mut_ptr(),
                    block,
                    Output::Overwrite,
                    q,
                    q_rows,
                    k,
                    kv_columns,
                    Threads::One,
                );
                gemm(
                    (rows, hd, keys),
                    dp.as_mut_ptr(),
                    block,
                    Output::Overwrite,
                    dout,
                    q_rows,
                    v,
                    kv_columns,
                    Threads::One,
                );
            }
            let lse = |i: usize| saved.lse[(task.start + first + i) * heads.query + head];
            simd::vectorized(
                #[inline(always)]
                || {
                    for i in 0..rows {
                        let row = i * keys..(i + 1) * keys;
                        let (seen, unseen) = p[row.clone()].split_at_mut(first + i + 1);
                        let top = lse(i);
                        for s in seen.iter_mut() {
                            *s = simd::exp(*s * scale - top);
                        }
                        unseen.fill(0.0);
                    }
                },
            );
            // SAFETY: the columns of this key/value head in this sequence belong to this task alone.
            unsafe {
                gemm(
                    (keys, rows, hd),
                    dv.at(kv_at),
                    kv_rows,
                    Output::Accumulate,
                    p.as_ptr(),
                    block_t,
                    dout,
                    q_rows,
                    Threads::One,
                );
            }
            simd::vectorized(
                #[inline(always)]
                || {
                    for i in 0..rows {
                        let o = at + i * qd;
                        let delta = simd::dot(&saved.out[o..o + hd], &saved.dout[o..o + hd]);
                        let row = i * keys..(i + 1) * keys;
                        for (dp, p) in dp[row.clone()].iter_mut().zip(&p[row]) {
                            *dp = p * (*dp - delta) * scale;
                        }
                    }
                },
            );
            // SAFETY: the columns of this head (dq) and key/value head (dk) in this sequence belong to this task alone.
            unsafe {
                gemm(
                    (rows, keys, hd),
                    dq.at(at),
                    q_rows,
                    Output::Overwrite,
                    dp.as_ptr(),
                    block,
                    k,
                    kv_rows,
                    Threads::One,
                );
                gemm(
                    (keys, rows, hd),
                    dk.at(kv_at),
                    kv_rows,
                    Output::Accumulate,
                    dp.as_ptr(),
                    block_t,
                    q,
                    q_rows,
                    Threads::One,
                );
            }
        }
    }
}
