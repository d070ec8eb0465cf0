//! Causal attention over packed sequences of any lengths, forward and backward, without a T×T matrix.
//!
//! A task is one key/value head of one sequence: it packs the head's keys and values once, so that they stay in the
//! cache, and takes its queries in small tiles. A tile sees only the keys before its end, so that the masked half costs
//! nothing. The backward pass recomputes the probabilities from the saved log-sum-exp (Dao et al. 2022). Heads may be
//! grouped: H query heads share H/G key/value heads.
//!
//! Shapes: `q` [N, H·head size], `k`, `v` [N, KV·head size]; the rows of each sequence are given by [`Sequences`].

mod backward;
mod device;
mod forward;
mod sequences;

pub use backward::backward;
pub(crate) use forward::exponentials;
pub use forward::forward;
pub use sequences::Sequences;

use candle_core::{Result, Tensor, bail};

use super::product::LANES;

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
pub struct LogSumExp(Held);

/// Where the log-sum-exps are: with the tensors that they were computed from.
#[derive(Clone, Debug)]
enum Held {
    Host(Vec<f32>),
    Device(Tensor),
}

impl LogSumExp {
    fn len(&self) -> usize {
        match &self.0 {
            Held::Host(values) => values.len(),
            Held::Device(tensor) => tensor.elem_count(),
        }
    }
}

fn check(q: &Tensor, k: &Tensor, v: &Tensor, sequences: &Sequences, heads: Heads) -> Result<usize> {
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
    if sequences.rows() != n {
        bail!("attention: sequences of {} rows for {n}", sequences.rows());
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

/// Elements between the rows of a matrix with a column for each of `keys`: whole registers, and one more so that the
/// rows of a power of two do not fall into the same cache sets.
pub(crate) fn key_stride(keys: usize) -> usize {
    keys.next_multiple_of(LANES) + LANES
}
