//! Causal attention over packed sequences, forward and backward, without materializing the T×T matrix.
//!
//! A task is one key/value head of one segment: a sequence, or the part of it after rows shared with other sequences. It packs the head's
//! keys and values once, so that they stay in the cache, and processes its queries in small tiles. A tile reads only the keys up to its
//! end, so the masked half costs nothing; with a sliding window it also skips keys before its first query's window. The backward pass
//! recomputes the probabilities from the saved log-sum-exp (Dao et al. 2022). With GQA, H query heads share KV key/value heads.
//!
//! [`Mask`] describes windows and ALiBi, both by position in the sequence. Shapes: `q` [N, H·head size], `k`, `v` [N,
//! KV·head size]. [`Sequences`] holds the rows of each sequence.

mod backward;
mod device;
mod forward;
mod mask;
mod products;
mod segments;
mod sequences;
#[cfg(target_arch = "x86_64")]
mod tiles;

pub use backward::backward;
pub(crate) use forward::exponentials;
pub use forward::{forward, forward_in};
pub(crate) use mask::MaskOnDevice;
pub use mask::{Mask, Slopes};
pub use sequences::Sequences;

use candle_core::{Result, Tensor, bail};

use super::product::LANES;
use products::Products;
use segments::Segment;

/// Head counts and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key/value heads; divides `query`.
    pub kv: usize,
    /// Head size.
    pub dim: usize,
}

/// The log-sum-exp of every row and head, [N, H], saved for the backward pass.
#[derive(Clone, Debug)]
pub struct LogSumExp(Held);

/// Storage, on the device that computed them.
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

fn check(q: &Tensor, k: &Tensor, v: &Tensor, sequences: &Sequences, heads: Heads, mask: &Mask) -> Result<usize> {
    mask.check(heads)?;
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

/// A (segment, key/value head) pair.
struct Task<'a> {
    segment: &'a Segment,
    kv: usize,
}

/// All pairs, sorted by descending number of products for load balance.
fn tasks(sequences: &Sequences, heads: Heads) -> Vec<Task<'_>> {
    let segments = sequences.segments().iter().filter(|segment| !segment.rows.is_empty());
    let mut tasks: Vec<Task<'_>> =
        segments.flat_map(|segment| (0..heads.kv).map(move |kv| Task { segment, kv })).collect();
    tasks.sort_by_key(|task| std::cmp::Reverse(task.segment.rows.len() * task.segment.keys()));
    tasks
}

/// Row stride of a matrix with one column per key: whole registers plus one, so that rows with power-of-two lengths
/// are not mapped to the same cache sets.
pub(crate) fn key_stride(keys: usize) -> usize {
    keys.next_multiple_of(LANES) + LANES
}

/// The first key read by a tile of queries from `position` on: rounded to whole registers and steps, so that a row's
/// summation order does not depend on its tile.
fn tile_begin<P: Products>(mask: &Mask, position: usize) -> usize {
    let unit = LANES.max(P::STEPS);
    mask.first_key(position) / unit * unit
}
