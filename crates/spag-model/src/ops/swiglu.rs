//! SwiGLU: y = silu(gate)·up, element by element (Shazeer 2020).

mod device;

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::{cpu, pool, simd};
use crate::kernels;

/// Elements a task works through.
const CHUNK: usize = 8192;

/// `gate` and `up` of one shape → the same shape.
///
/// # Errors
/// Shapes that differ, or tensors that are not contiguous f32 (or, for kernels, bf16).
pub fn forward(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if gate.dims() != up.dims() {
        bail!("swiglu: gate is {:?}, up is {:?}", gate.dims(), up.dims());
    }
    if let Some(kernels) = kernels::of(gate.device())? {
        return device::forward(&*kernels, gate, up);
    }
    let mut y = pool::values(gate.elem_count());
    cpu::read(gate, |g| {
        cpu::read(up, |u| {
            y.par_chunks_mut(CHUNK).zip(g.par_chunks(CHUNK)).zip(u.par_chunks(CHUNK)).for_each(|((y, g), u)| {
                simd::vectorized(
                    #[inline(always)]
                    || {
                        for ((y, g), u) in y.iter_mut().zip(g).zip(u) {
                            *y = g * simd::sigmoid(*g) * u;
                        }
                    },
                );
            });
            Ok(())
        })
    })?;
    cpu::tensor(y, gate.dims2()?)
}

/// As [`forward`] for `x` [N, 2F] that holds gate and up side by side → [N, F].
///
/// # Errors
/// An odd width, or a tensor that is not contiguous f32 (or, for kernels, bf16).
pub fn forward_joined(x: &Tensor) -> Result<Tensor> {
    let (n, width) = x.dims2()?;
    let f = width / 2;
    if f == 0 || width % 2 != 0 {
        bail!("swiglu: gate and up together are [{n}, {width}]");
    }
    if let Some(kernels) = kernels::of(x.device())? {
        return device::forward_joined(&*kernels, x);
    }
    let mut y = pool::values(n * f);
    let rows = CHUNK.div_ceil(f);
    cpu::read(x, |x| {
        y.par_chunks_mut(f * rows).zip(x.par_chunks(width * rows)).for_each(|(y, x)| {
            simd::vectorized(
                #[inline(always)]
                || {
                    for (y, x) in y.chunks_exact_mut(f).zip(x.chunks_exact(width)) {
                        let (gate, up) = x.split_at(f);
                        for ((y, g), u) in y.iter_mut().zip(gate).zip(up) {
                            *y = g * simd::sigmoid(*g) * u;
                        }
                    }
                },
            );
        });
        Ok(())
    })?;
    cpu::tensor(y, (n, f))
}

/// The backward pass in place: `gate` and `up` become their gradients, and `dy`, the gradient of the output, becomes
/// the output once more, which the layer that reads it needs for the gradient of its weight.
///
/// # Errors
/// Shapes that differ, or tensors that are not contiguous f32 (or, for kernels, bf16).
pub fn backward(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<()> {
    if gate.dims() != up.dims() || dy.dims() != gate.dims() {
        bail!("swiglu backward: gate is {:?}, up is {:?}, dy is {:?}", gate.dims(), up.dims(), dy.dims());
    }
    if let Some(kernels) = kernels::of(gate.device())? {
        return device::backward(&*kernels, gate, up, dy);
    }
    cpu::update(gate, |g| {
        cpu::update(up, |u| {
            cpu::update(dy, |dy| {
                g.par_chunks_mut(CHUNK).zip(u.par_chunks_mut(CHUNK)).zip(dy.par_chunks_mut(CHUNK)).for_each(
                    |((g, u), dy)| {
                        simd::vectorized(
                            #[inline(always)]
                            || {
                                for ((g, u), dy) in g.iter_mut().zip(u).zip(dy) {
                                    let s = simd::sigmoid(*g);
                                    let silu = *g * s;
                                    let y = silu * *u;
                                    *g = *dy * *u * (s + silu * (1.0 - s));
                                    *u = *dy * silu;
                                    *dy = y;
                                }
                            },
                        );
                    },
                );
                Ok(())
            })
        })
    })
}
