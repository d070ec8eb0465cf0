//! AdamW as in PyTorch: decoupled decay, bias correction, ε outside the root (Loshchilov and Hutter 2019).

use candle_core::{DType, Result, Tensor, bail};
use half::bf16;
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

use super::cpu::{self, Stored};
use super::product::Element;
use super::simd;
use crate::kernels::{self, Arg, Kernels, Launch, Module, blocks, module};

/// Hyperparameters of one update.
#[derive(Clone, Copy, Debug)]
pub struct AdamWStep {
    /// Number of this update, from 1, for the bias correction.
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
    /// Scales the gradient, for clipping; 1 if not clipped.
    pub gradient_scale: f64,
}

/// The weights to update, by number format.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// f32 weights.
    F32(&'a Tensor),
    /// f32 master weights and the model's bf16 weights, which are rounded to nearest even.
    Master {
        /// The master weights.
        wide: &'a Tensor,
        /// The model's weights; overwritten.
        rounded: &'a Tensor,
    },
    /// bf16 weights without master weights, with stochastic rounding: updates too small for bf16 still count on
    /// average. The random bits are a hash of the seed, the step and the element's index, so results depend neither on
    /// sharding nor on the device.
    Stochastic {
        /// The model's weights.
        narrow: &'a Tensor,
        /// Seed of the random bits.
        seed: u64,
        /// Index of the first element among all elements updated with this seed.
        first: u64,
    },
}

/// Per-update constants, shared by all elements.
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

    /// Updates some elements.
    #[inline(always)]
    fn update<G: Element>(&self, p: &mut [f32], g: &[G], m: &mut [f32], v: &mut [f32]) {
        for i in 0..p.len() {
            let g = g[i].widen() * self.scale;
            m[i] = self.beta1 * m[i] + self.rest1 * g;
            v[i] = self.beta2 * v[i] + self.rest2 * g * g;
            p[i] = p[i] * self.decay - self.rate * (m[i] / (v[i].sqrt() / self.root + self.epsilon));
        }
    }
}

/// Elements per task.
const CHUNK: usize = 16384;

/// Updates `weights` and both moments in place. All are flat buffers of the same length, f32 except bf16 weights. On a CPU the
/// gradient may be bf16.
///
/// # Errors
/// Mismatched lengths or number formats, or tensors that are not contiguous.
pub fn adamw(weights: Weights<'_>, gradient: &Tensor, m: &Tensor, v: &Tensor, at: &AdamWStep) -> Result<()> {
    check(weights, gradient, [m, v])?;
    let numbers = Numbers::of(at);
    if let Some(kernels) = kernels::of(gradient.device())? {
        return launch_adamw(&*kernels, weights, gradient, (m, v), &numbers);
    }
    match gradient.dtype() {
        DType::BF16 => bf16::read(gradient, |g| on_cpu(weights, g, (m, v), &numbers)),
        _ => cpu::read(gradient, |g| on_cpu(weights, g, (m, v), &numbers)),
    }
}

fn on_cpu<G: Element>(weights: Weights<'_>, g: &[G], (m, v): (&Tensor, &Tensor), numbers: &Numbers) -> Result<()> {
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
                bf16::update(rounded, |rounded| {
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
            Weights::Stochastic { narrow, seed, first } => bf16::update(narrow, |narrow| {
                let key = key(seed, numbers.step);
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
                            *narrow = stochastic_round(p, key, element);
                        }
                    },
                );
                Ok(())
            }),
        })
    })
}

/// Calls `f` with chunks of weights, gradient and both moments.
fn update<W: Send, G: Element>(
    g: &[G],
    (m, v): (&mut [f32], &mut [f32]),
    weights: impl IndexedParallelIterator<Item = W>,
    f: impl Fn(W, &[G], &mut [f32], &mut [f32]) + Sync,
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

fn check(weights: Weights<'_>, gradient: &Tensor, moments: [&Tensor; 2]) -> Result<()> {
    let (wide, narrow) = match weights {
        Weights::F32(parameter) => (Some(parameter), None),
        Weights::Master { wide, rounded } => (Some(wide), Some(rounded)),
        Weights::Stochastic { narrow, .. } => (None, Some(narrow)),
    };
    let expected = moments.into_iter().chain(wide).map(|t| (t, DType::F32)).chain(narrow.map(|t| (t, DType::BF16)));
    let count = gradient.elem_count();
    if !matches!(gradient.dtype(), DType::F32 | DType::BF16) {
        bail!("adamw: gradients of {:?}; f32 or bf16 are expected", gradient.dtype());
    }
    for (tensor, dtype) in expected {
        if tensor.elem_count() != count || tensor.dtype() != dtype {
            let (n, got) = (tensor.elem_count(), tensor.dtype());
            bail!("adamw: {n} elements of {got:?} beside {count} gradients; {dtype:?} is expected");
        }
    }
    Ok(())
}

// ── Kernel launches ──

const MODULE: Module = module!("adamw");
/// Elements per thread.
const EACH: usize = 4;

fn launch_adamw(
    kernels: &dyn Kernels,
    weights: Weights<'_>,
    gradient: &Tensor,
    (m, v): (&Tensor, &Tensor),
    at: &Numbers,
) -> Result<()> {
    let count = gradient.elem_count();
    if gradient.dtype() != DType::F32 {
        bail!("adamw: gradients of {:?} on a device; f32 is expected", gradient.dtype());
    }
    let mut args = match weights {
        Weights::F32(parameter) => vec![Arg::Out(parameter), Arg::Null],
        Weights::Master { wide, rounded } => vec![Arg::Out(wide), Arg::Out(rounded)],
        Weights::Stochastic { narrow, .. } => vec![Arg::Out(narrow)],
    };
    args.extend([Arg::In(gradient), Arg::Out(m), Arg::Out(v), Arg::U64(count as u64)]);
    let &Numbers { decay, rate, root, beta1, beta2, rest1, rest2, epsilon, scale, .. } = at;
    args.extend([decay, rate, root, beta1, beta2, rest1, rest2, epsilon, scale].map(Arg::F32));
    let kernel = match weights {
        Weights::Stochastic { seed, first, .. } => {
            args.extend([Arg::U64(key(seed, at.step)), Arg::U64(first)]);
            "adamw_stochastic"
        }
        _ => "adamw_f32",
    };
    kernels.launch(&Launch {
        kernel: kernel.into(),
        grid: [blocks(count, EACH)?, 1, 1],
        args: &args,
        ..Launch::of(MODULE)
    })
}

// ── Stochastic rounding ──

/// 2⁶⁴ divided by the golden ratio, to spread consecutive indices over all of u64.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hash key of a step.
fn key(seed: u64, step: u64) -> u64 {
    mixed(mixed(seed.wrapping_add(SPREAD)) ^ step.wrapping_mul(SPREAD))
}

/// Rounds `x` to one of its two bf16 neighbours, with probabilities that make the expected value `x`: adds sixteen
/// random bits to the truncated bits.
fn stochastic_round(x: f32, key: u64, element: u64) -> bf16 {
    if !x.is_finite() {
        return bf16::from_f32(x);
    }
    let random = (mixed(key.wrapping_add(element.wrapping_mul(SPREAD))) >> 48) as u32;
    bf16::from_bits((x.to_bits().wrapping_add(random) >> 16) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stochastic_rounding_is_unbiased() {
        // The bf16 neighbours of 1 + 1/512 are 1 and 1 + 1/128, so a quarter is rounded up.
        let (x, count) = (1.0 + 1.0 / 512.0, 100_000u64);
        for sign in [1.0, -1.0] {
            let up = (0..count).filter(|i| stochastic_round(sign * x, key(7, 3), *i).to_f32().abs() > 1.0).count();
            // Five standard deviations.
            assert!((up as f64 / count as f64 - 0.25).abs() < 5.0 * (0.25 * 0.75 / count as f64).sqrt(), "{up}");
        }
        assert_eq!(stochastic_round(1.5, key(7, 3), 0).to_f32(), 1.5, "exact values are unchanged");
        assert_eq!(stochastic_round(f32::INFINITY, 1, 0), bf16::INFINITY);
        assert!(stochastic_round(f32::NAN, 1, 0).is_nan());
    }
}
