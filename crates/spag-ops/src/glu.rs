//! Gated activations, y = act(gate)·up elementwise (Shazeer 2020).

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use rayon::prelude::*;

use super::geglu::TanhGelu;
use super::pool::Pooled;
use super::product::Element;
use super::swiglu::Silu;
use super::{cpu, pool, simd};
use crate::kernels::{self, Arg, Kernels, Launch, Module, blocks, suffix, vector_len};

/// Elements per task.
const CHUNK: usize = 8192;

/// An activation function of gates.
pub(super) trait Gate {
    /// Its kernels `NAME_forward` and `NAME_backward`, each also with the suffix `_joined`.
    const MODULE: Module;

    /// act(g).
    fn value(g: f32) -> f32;

    /// act(g) and its derivative.
    fn value_and_slope(g: f32) -> (f32, f32);
}

/// The activation of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// silu.
    SwiGlu,
    /// gelu with the tanh approximation.
    GeGlu,
}

impl Activation {
    /// `gate` and `up` of the same shape → an output of that shape.
    ///
    /// # Errors
    /// Different shapes, or tensors that are not contiguous f32 or bf16.
    pub fn forward(self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        match self {
            Self::SwiGlu => forward::<Silu>(gate, up),
            Self::GeGlu => forward::<TanhGelu>(gate, up),
        }
    }

    /// As [`Activation::forward`] for `x` [N, 2F] with gate and up in adjacent columns → [N, F].
    ///
    /// # Errors
    /// An odd width, or a tensor that is not contiguous f32 (kernels also accept bf16).
    pub fn forward_joined(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Self::SwiGlu => forward_joined::<Silu>(x),
            Self::GeGlu => forward_joined::<TanhGelu>(x),
        }
    }

    /// The backward pass, in place: `gate` and `up` become their gradients, and `dy` becomes the recomputed output, which
    /// the next layer needs for its weight gradient.
    ///
    /// # Errors
    /// Different shapes, or tensors that are not contiguous f32; `gate` and `up` can be bf16, and on a CPU `dy` remains f32
    /// (kernels accept bf16 for all).
    pub fn backward(self, gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<()> {
        match self {
            Self::SwiGlu => backward::<Silu>(gate, up, dy),
            Self::GeGlu => backward::<TanhGelu>(gate, up, dy),
        }
    }

    /// As [`Activation::backward`] for `x` [N, 2F] with gate and up in adjacent columns, and `dy` [N, F].
    ///
    /// # Errors
    /// Other shapes, or tensors that are not contiguous f32 (kernels also accept bf16).
    pub fn backward_joined(self, x: &Tensor, dy: &Tensor) -> Result<()> {
        match self {
            Self::SwiGlu => backward_joined::<Silu>(x, dy),
            Self::GeGlu => backward_joined::<TanhGelu>(x, dy),
        }
    }
}

fn forward<G: Gate>(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if gate.dims() != up.dims() {
        bail!("gate: gate is {:?}, up is {:?}", gate.dims(), up.dims());
    }
    if let Some(kernels) = kernels::of(gate.device())? {
        return launch_forward::<G>(&*kernels, gate, up);
    }
    match gate.dtype() {
        DType::BF16 => forward_in::<G, bf16>(gate, up),
        _ => forward_in::<G, f32>(gate, up),
    }
}

/// [`forward`] on a CPU for one number format.
fn forward_in<G: Gate, T: Element + Pooled>(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let mut y = pool::values::<T>(gate.elem_count());
    T::read(gate, |g| {
        T::read(up, |u| {
            y.par_chunks_mut(CHUNK).zip(g.par_chunks(CHUNK)).zip(u.par_chunks(CHUNK)).for_each(|((y, g), u)| {
                simd::vectorized(
                    #[inline(always)]
                    || {
                        for ((y, g), u) in y.iter_mut().zip(g).zip(u) {
                            let g = g.widen();
                            *y = T::nearest(G::value(g) * u.widen());
                        }
                    },
                );
            });
            Ok(())
        })
    })?;
    cpu::tensor(y, gate.dims2()?)
}

fn forward_joined<G: Gate>(x: &Tensor) -> Result<Tensor> {
    let (n, width) = x.dims2()?;
    let f = width / 2;
    if f == 0 || width % 2 != 0 {
        bail!("gate: gate and up together are [{n}, {width}]");
    }
    if let Some(kernels) = kernels::of(x.device())? {
        return launch_forward_joined::<G>(&*kernels, x);
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
                            *y = G::value(*g) * u;
                        }
                    }
                },
            );
        });
        Ok(())
    })?;
    cpu::tensor(y, (n, f))
}

fn backward<G: Gate>(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<()> {
    if gate.dims() != up.dims() || dy.dims() != gate.dims() {
        bail!("gate backward: gate is {:?}, up is {:?}, dy is {:?}", gate.dims(), up.dims(), dy.dims());
    }
    if let Some(kernels) = kernels::of(gate.device())? {
        return launch_backward::<G>(&*kernels, gate, up, dy);
    }
    match gate.dtype() {
        DType::BF16 => backward_in::<G, bf16>(gate, up, dy),
        _ => backward_in::<G, f32>(gate, up, dy),
    }
}

fn backward_joined<G: Gate>(x: &Tensor, dy: &Tensor) -> Result<()> {
    let (n, f) = dy.dims2()?;
    if x.dims() != [n, 2 * f] {
        bail!("gate backward: gate and up together are {:?}, dy is [{n}, {f}]", x.dims());
    }
    if let Some(kernels) = kernels::of(x.device())? {
        return launch_backward_joined::<G>(&*kernels, x, dy);
    }
    let half = |first| x.narrow(1, first, f)?.force_contiguous();
    let (gate, up) = (half(0)?, half(f)?);
    backward::<G>(&gate, &up, dy)?;
    x.slice_set(&gate, 1, 0)?;
    x.slice_set(&up, 1, f)
}

/// [`backward`] on a CPU for one number format of `gate` and `up`.
fn backward_in<G: Gate, T: Element>(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<()> {
    T::update(gate, |gate| {
        T::update(up, |up| {
            cpu::update(dy, |dy| {
                gate.par_chunks_mut(CHUNK).zip(up.par_chunks_mut(CHUNK)).zip(dy.par_chunks_mut(CHUNK)).for_each(
                    |((gate, up), dy)| {
                        simd::vectorized(
                            #[inline(always)]
                            || {
                                for ((gate, up), dy) in gate.iter_mut().zip(up).zip(dy) {
                                    let (g, u) = (gate.widen(), up.widen());
                                    let (value, slope) = G::value_and_slope(g);
                                    let y = value * u;
                                    *gate = T::nearest(*dy * u * slope);
                                    *up = T::nearest(*dy * value);
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

// ── Kernel launches ──

fn check(tensors: &[&Tensor]) -> Result<()> {
    match tensors.windows(2).find(|pair| pair[0].dtype() != pair[1].dtype()) {
        Some(pair) => bail!("gate: {:?} beside {:?}", pair[0].dtype(), pair[1].dtype()),
        None => Ok(()),
    }
}

fn launch_forward<G: Gate>(kernels: &dyn Kernels, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    check(&[gate, up])?;
    let y = kernels.empty(gate.dims(), gate.dtype())?;
    let count = gate.elem_count();
    kernels.launch(&Launch {
        kernel: format!("{}_forward_{}", G::MODULE.name, suffix(gate.dtype())?),
        grid: [blocks(count, vector_len(gate.dtype()))?, 1, 1],
        args: &[Arg::In(gate), Arg::In(up), Arg::Out(&y), Arg::U64(count as u64)],
        ..Launch::of(G::MODULE)
    })?;
    Ok(y)
}

fn launch_forward_joined<G: Gate>(kernels: &dyn Kernels, x: &Tensor) -> Result<Tensor> {
    let (n, width) = x.dims2()?;
    let f = width / 2;
    let y = kernels.empty(&[n, f], x.dtype())?;
    kernels.launch(&Launch {
        kernel: format!("{}_forward_joined_{}", G::MODULE.name, suffix(x.dtype())?),
        grid: [n as u32, blocks(f, vector_len(x.dtype()))?, 1],
        args: &[Arg::In(x), Arg::Out(&y), Arg::U32(f as u32)],
        ..Launch::of(G::MODULE)
    })?;
    Ok(y)
}

fn launch_backward<G: Gate>(kernels: &dyn Kernels, gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<()> {
    check(&[gate, up, dy])?;
    let count = gate.elem_count();
    kernels.launch(&Launch {
        kernel: format!("{}_backward_{}", G::MODULE.name, suffix(gate.dtype())?),
        grid: [blocks(count, vector_len(gate.dtype()))?, 1, 1],
        args: &[Arg::Out(gate), Arg::Out(up), Arg::Out(dy), Arg::U64(count as u64)],
        ..Launch::of(G::MODULE)
    })
}

fn launch_backward_joined<G: Gate>(kernels: &dyn Kernels, x: &Tensor, dy: &Tensor) -> Result<()> {
    check(&[x, dy])?;
    let (n, f) = dy.dims2()?;
    kernels.launch(&Launch {
        kernel: format!("{}_backward_joined_{}", G::MODULE.name, suffix(x.dtype())?),
        grid: [n as u32, blocks(f, vector_len(x.dtype()))?, 1],
        args: &[Arg::Out(x), Arg::Out(dy), Arg::U32(f as u32)],
        ..Launch::of(G::MODULE)
    })
}
