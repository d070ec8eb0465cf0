//! AdamW as torch computes it: decoupled decay, bias correction, ε outside the root (Loshchilov and Hutter 2019).

use candle_core::{Result, Tensor, bail};
use rayon::prelude::*;

use super::{cpu, simd};

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

/// Elements a task works through.
const CHUNK: usize = 16384;

/// Updates `parameter` and both moments in place from `gradient`; four flat f32 buffers of one length.
///
/// # Errors
/// Lengths that differ, or tensors that are not contiguous f32.
pub fn adamw(parameter: &Tensor, gradient: &Tensor, m: &Tensor, v: &Tensor, at: &AdamWStep) -> Result<()> {
    let count = parameter.elem_count();
    if [gradient, m, v].iter().any(|t| t.elem_count() != count) {
        bail!("adamw: lengths {count}, {}, {}, {} differ", gradient.elem_count(), m.elem_count(), v.elem_count());
    }
    let power = i32::try_from(at.step).unwrap_or(i32::MAX);
    let correction1 = 1.0 - at.beta1.powi(power);
    let correction2 = 1.0 - at.beta2.powi(power);
    let decay = (1.0 - at.learning_rate * at.weight_decay) as f32;
    let rate = (at.learning_rate / correction1) as f32;
    let root = correction2.sqrt() as f32;
    let (b1, b2, eps, scale) = (at.beta1 as f32, at.beta2 as f32, at.epsilon as f32, at.gradient_scale as f32);
    let (c1, c2) = ((1.0 - at.beta1) as f32, (1.0 - at.beta2) as f32);
    cpu::read(gradient, |g| {
        cpu::update(m, |m| {
            cpu::update(v, |v| {
                cpu::update(parameter, |p| {
                    p.par_chunks_mut(CHUNK)
                        .zip(g.par_chunks(CHUNK))
                        .zip(m.par_chunks_mut(CHUNK).zip(v.par_chunks_mut(CHUNK)))
                        .for_each(|((p, g), (m, v))| {
                            simd::vectorized(
                                #[inline(always)]
                                || {
                                    for i in 0..p.len() {
                                        let g = g[i] * scale;
                                        m[i] = b1 * m[i] + c1 * g;
                                        v[i] = b2 * v[i] + c2 * g * g;
                                        p[i] = p[i] * decay - rate * (m[i] / (v[i].sqrt() / root + eps));
                                    }
                                },
                            );
                        });
                    Ok(())
                })
            })
        })
    })
}
