//! SwiGLU: y = silu(gate)·up, element by element (Shazeer 2020).

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::{cpu, simd};

/// Elements a task works through.
const CHUNK: usize = 8192;

/// `gate` and `up` of one shape → the same shape.
///
/// # Errors
/// Shapes that differ, or tensors that are not contiguous f32.
pub fn forward(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if gate.dims() != up.dims() {
        bail!("swiglu: gate is {:?}, up is {:?}", gate.dims(), up.dims());
    }
    let mut y = vec![0f32; gate.elem_count()];
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

/// The gradients of `gate` and `up`, in that order.
///
/// # Errors
/// Shapes that differ, or tensors that are not contiguous f32.
pub fn backward(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<(Tensor, Tensor)> {
    if gate.dims() != up.dims() || dy.dims() != gate.dims() {
        bail!("swiglu backward: gate is {:?}, up is {:?}, dy is {:?}", gate.dims(), up.dims(), dy.dims());
    }
    let count = gate.elem_count();
    let (mut dg, mut du) = (vec![0f32; count], vec![0f32; count]);
    cpu::read(gate, |g| {
        cpu::read(up, |u| {
            cpu::read(dy, |dy| {
                dg.par_chunks_mut(CHUNK)
                    .zip(du.par_chunks_mut(CHUNK))
                    .zip(g.par_chunks(CHUNK).zip(u.par_chunks(CHUNK)).zip(dy.par_chunks(CHUNK)))
                    .for_each(|((dg, du), ((g, u), dy))| {
                        simd::vectorized(
                            #[inline(always)]
                            || {
                                for i in 0..g.len() {
                                    let s = simd::sigmoid(g[i]);
                                    let silu = g[i] * s;
                                    du[i] = dy[i] * silu;
                                    dg[i] = dy[i] * u[i] * (s + silu * (1.0 - s));
                                }
                            },
                        );
                    });
                Ok(())
            })
        })
    })?;
    let shape = gate.dims2()?;
    Ok((cpu::tensor(dg, shape)?, cpu::tensor(du, shape)?))
}
