//! Attention of new tokens over a cache of keys and values, for generation.
//!
//! Every row is computed by itself in one fixed order, so that a result does not depend on what else is in the batch.

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::attention::Heads;
use super::{cpu, simd};

/// Where one query row finds its keys.
#[derive(Clone, Copy, Debug)]
pub struct CachedRow {
    /// First row of its sequence in the cache.
    pub start: usize,
    /// Position of the query in its sequence; it sees `position + 1` keys.
    pub position: usize,
}

/// Writes row n of `rows` [N, KV·head size] to its place in `cache` [capacity, KV·head size], in place.
///
/// # Errors
/// A place outside the cache, shapes that do not fit, or tensors that are not contiguous f32.
pub fn append(cache: &Tensor, rows: &Tensor, places: &[CachedRow]) -> Result<()> {
    let ((capacity, width), (n, w)) = (cache.dims2()?, rows.dims2()?);
    if w != width || n != places.len() || places.iter().any(|p| p.start + p.position >= capacity) {
        bail!("kv cache: [{n}, {w}] rows at {} places do not fit [{capacity}, {width}]", places.len());
    }
    cpu::read(rows, |rows| {
        cpu::update(cache, |cache| {
            for (row, place) in rows.chunks_exact(width).zip(places) {
                let at = (place.start + place.position) * width;
                cache[at..at + width].copy_from_slice(row);
            }
            Ok(())
        })
    })
}

/// `q` [N, H·head size] over the cached keys and values [capacity, KV·head size] → [N, H·head size].
///
/// # Errors
/// A place outside the cache, shapes that do not fit, or tensors that are not contiguous f32.
pub fn forward(q: &Tensor, k: &Tensor, v: &Tensor, places: &[CachedRow], heads: Heads) -> Result<Tensor> {
    let (n, qd) = q.dims2()?;
    let (capacity, kd) = k.dims2()?;
    let hd = heads.dim;
    if qd != heads.query * hd || kd != heads.kv * hd || v.dims() != k.dims() || n != places.len() {
        bail!("cached attention: q {:?}, k {:?}, v {:?} do not fit {heads:?}", q.dims(), k.dims(), v.dims());
    }
    if places.iter().any(|p| p.start + p.position >= capacity) {
        bail!("cached attention: a query lies outside the cache of {capacity} rows");
    }
    let group = heads.query / heads.kv;
    let scale = 1.0 / (hd as f32).sqrt();
    let mut out = vec![0f32; n * qd];
    cpu::read(q, |q| {
        cpu::read(k, |k| {
            cpu::read(v, |v| {
                out.par_chunks_exact_mut(qd).zip(q.par_chunks_exact(qd)).zip(places).for_each_init(
                    Vec::new,
                    |scores: &mut Vec<f32>, ((out, q), place)| {
                        let keys = place.position + 1;
                        let span = place.start * kd..(place.start + keys) * kd;
                        let (k, v) = (&k[span.clone()], &v[span]);
                        scores.resize(keys, 0.0);
                        simd::vectorized(
                            #[inline(always)]
                            || {
                                for head in 0..heads.query {
                                    let at = (head / group) * hd;
                                    let (q, out) =
                                        (&q[head * hd..(head + 1) * hd], &mut out[head * hd..(head + 1) * hd]);
                                    for (s, k) in scores.iter_mut().zip(k.chunks_exact(kd)) {
                                        *s = simd::dot(q, &k[at..at + hd]) * scale;
                                    }
                                    let top = simd::max(scores);
                                    for s in scores.iter_mut() {
                                        *s = simd::exp(*s - top);
                                    }
                                    let inverse = 1.0 / simd::sum_of(scores, |s| s);
                                    for (s, v) in scores.iter().zip(v.chunks_exact(kd)) {
                                        let p = s * inverse;
                                        for (o, v) in out.iter_mut().zip(&v[at..at + hd]) {
                                            *o += p * v;
                                        }
                                    }
                                }
                            },
                        );
                    },
                );
                Ok(())
            })
        })
    })?;
    cpu::tensor(out, (n, qd))
}
