//! AdamW as torch computes it: decoupled decay, bias correction, ε outside the root (Loshchilov and Hutter 2019).

mod chance;
mod device;

use candle_core::{DType, Result, Tensor, bail};
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use self::chance::{key, rounded_by_chance};
use super::{cpu, simd};
use crate::kernels;

/// The numbers of one update.
#[derive(Clone, Copy, Debug)]
pub struct AdamWStep {
    /// 1 for the first update; enters the bias correction.
    pub step: u64,
    /// Learning rate of this update.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Factor on the gradient, for clipping; 1 leaves it as it is.
    pub gradient_scale: f64,
}

/// The weights of an update, by what is kept of them.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// f32 weights.
    F32(&'a Tensor),
    /// f32 master weights, and the bf16 weights that the model reads: those rounded to nearest even.
    Master {
        /// The master weights.
        wide: &'a Tensor,
        /// The weights of the model, overwritten.
        rounded: &'a Tensor,
    },
    /// bf16 weights without master weights, rounded by chance, so that updates too small for bf16 still count on
    /// average. The random bits are a hash of the seed, the step and the number of the element: an update gives the
    /// same bits however it is split up, on every device.
    Stochastic {
        /// The weights.
        narrow: &'a Tensor,
        /// Chooses the random bits.
        seed: u64,
        /// The number of the first element among all elements that are updated with this seed.
        first: u64,
    },
}

/// An update's numbers as every element needs them.
struct Numbers {
    step: u64,
    decay: f32,
    rate: f32,
    root: f32,
    beta1: f32,
    beta2: f32,
    /// 1 - β₁.
    rest1: f32,
    /// 1 - β₂.
    rest2: f32,
    epsilon: f32,
    scale: f32,
}

impl Numbers {
    fn of(at: &AdamWStep) -> Self {
        let power = i32::try_from(at.step).unwrap_or(i32::MAX);
        let correction1 = 1.0 - at.beta1.powi(power);
        let correction2 = 1.0 - at.beta2.powi(power);
        Self {
            step: at.step,
            decay: (1.0 - at.learning_rate * at.weight_decay) as f32,
            rate: (at.learning_rate / correction1) as f32,
            root: correction2.sqrt() as f32,
            beta1: at.beta1 as f32,
            beta2: at.beta2 as f32,
            rest1: (1.0 - at.beta1) as f32,
            rest2: (1.0 - at.beta2) as f32,
            epsilon: at.epsilon as f32,
            scale: at.gradient_scale as f32,
        }
    }

    /// The update of some elements.
    #[inline(always)]
    fn update(&self, p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
        for i in 0..p.len() {
            let g = g[i] * self.scale;
            m[i] = self.beta1 * m[i] + self.rest1 * g;
            v[i] = self.beta2 * v[i] + self.rest2 * g * g;
            p[i] = p[i] * self.decay - self.rate * (m[i] / (v[i].sqrt() / self.root + self.epsilon));
        }
    }
}

/// Elements a task works through.
const CHUNK: usize = 16384;

/// Updates `weights` and both moments in place from `gradient`; flat buffers of one length, f32 but for bf16 weights.
///
/// # Errors
/// Lengths or number formats that do not fit, or tensors that are not contiguous.
pub fn adamw(weights: Weights<'_>, gradient: &Tensor, m: &Tensor, v: &Tensor, at: &AdamWStep) -> Result<()> {
    check(weights, [gradient, m, v])?;
    let numbers = Numbers::of(at);
    if let Some(kernels) = kernels::of(gradient.device())? {
        return device::adamw(&*kernels, weights, gradient, (m, v), &numbers);
    }
    cpu::read(gradient, |g| {
        cpu::update(m, |m| {
            cpu::update(v, |v| match weights {
                Weights::F32(parameter) => cpu::update(parameter, |p| {
                    update(
                        g,
                        (m, v),
                        p.par_chunks_mut(CHUNK),
                        #[inline(always)]
                        |p, g, m, v| numbers.update(p, g, m, v),
                    );
                    Ok(())
                }),
                Weights::Master { wide, rounded } => cpu::update(wide, |p| {
                    cpu::update_bf16(rounded, |rounded| {
                        let chunks = p.par_chunks_mut(CHUNK).zip(rounded.par_chunks_mut(CHUNK));
                        update(
                            g,
                            (m, v),
                            chunks,
                            #[inline(always)]
                            |(p, rounded), g, m, v| {
                                numbers.update(p, g, m, v);
                                rounded.convert_from_f32_slice(p);
                            },
                        );
                        Ok(())
                    })
                }),
                Weights::Stochastic { narrow, seed, first } => cpu::update_bf16(narrow, |narrow| {
                    let key = key(seed, at.step);
                    let chunks = narrow.par_chunks_mut(CHUNK).enumerate();
                    update(
                        g,
                        (m, v),
                        chunks,
                        #[inline(always)]
                        |(index, narrow), g, m, v| {
                            let mut p = vec![0f32; narrow.len()];
                            narrow.convert_to_f32_slice(&mut p);
                            numbers.update(&mut p, g, m, v);
                            let first = first.wrapping_add((index * CHUNK) as u64);
                            for ((narrow, p), element) in narrow.iter_mut().zip(p).zip(first..) {
                                *narrow = rounded_by_chance(p, key, element);
                            }
                        },
                    );
                    Ok(())
                }),
            })
        })
    })
}

/// Calls `f` with the chunks of weights, gradient and both moments.
fn update<W: Send>(
    g: &[f32],
    (m, v): (&mut [f32], &mut [f32]),
    weights: impl IndexedParallelIterator<Item = W>,
    f: impl Fn(W, &[f32], &mut [f32], &mut [f32]) + Sync,
) {
    weights.zip(g.par_chunks(CHUNK)).zip(m.par_chunks_mut(CHUNK).zip(v.par_chunks_mut(CHUNK))).for_each(
        |((weights, g), (m, v))| {
            simd::vectorized(
                #[inline(always)]
                || f(weights, g, m, v),
            );
        },
    );
}

fn check(weights: Weights<'_>, others: [&Tensor; 3]) -> Result<()> {
    let (wide, narrow) = match weights {
        Weights::F32(parameter) => (Some(parameter), None),
        Weights::Master { wide, rounded } => (Some(wide), Some(rounded)),
        Weights::Stochastic { narrow, .. } => (None, Some(narrow)),
    };
    let expected = others.into_iter().chain(wide).map(|t| (t, DType::F32)).chain(narrow.map(|t| (t, DType::BF16)));
    let count = others[0].elem_count();
    for (tensor, dtype) in expected {
        if tensor.elem_count() != count || tensor.dtype() != dtype {
            let (n, got) = (tensor.elem_count(), tensor.dtype());
            bail!("adamw: {n} elements of {got:?} beside {count} gradients; {dtype:?} is expected");
        }
    }
    Ok(())
}
