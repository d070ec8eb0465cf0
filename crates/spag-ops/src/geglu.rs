//! GeGLU: y = gelu(gate)·up, elementwise (Shazeer 2020), with the approximation of gelu by tanh, as Gemma computes it.

use candle_core::{Result, Tensor};

use super::glu::{self, Gate};
use super::simd;
use crate::kernels::{Module, module};

/// 2·√(2/π).
const TWICE_ROOT: f32 = 1.595_769;
/// The factor of the cubic term.
const CUBIC: f32 = 0.044_715;

/// z such that gelu(g) = g·(1 + tanh(z/2))/2 = g·sigmoid(z).
#[inline(always)]
fn argument(g: f32) -> f32 {
    TWICE_ROOT * (g + CUBIC * g * g * g)
}

struct TanhGelu;

impl Gate for TanhGelu {
    const MODULE: Module = module!("geglu");

    #[inline(always)]
    fn value(g: f32) -> f32 {
        g * simd::sigmoid(argument(g))
    }

    #[inline(always)]
    fn value_and_slope(g: f32) -> (f32, f32) {
        let s = simd::sigmoid(argument(g));
        let gelu = g * s;
        (gelu, s + gelu * (1.0 - s) * (TWICE_ROOT * (1.0 + 3.0 * CUBIC * g * g)))
    }
}

/// `gate` and `up` of one shape → the same shape.
///
/// # Errors
/// Different shapes, or tensors that are not contiguous f32 or bf16.
pub fn forward(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    glu::forward::<TanhGelu>(gate, up)
}

/// As [`forward`] for `x` [N, 2F] with gate and up in adjacent columns → [N, F].
///
/// # Errors
/// An odd width, or a tensor that is not contiguous f32 (kernels also accept bf16).
pub fn forward_joined(x: &Tensor) -> Result<Tensor> {
    glu::forward_joined::<TanhGelu>(x)
}

/// The backward pass, in place: `gate` and `up` become their gradients, and `dy` becomes the recomputed output, which
/// the following layer needs for its weight gradient.
///
/// # Errors
/// Different shapes, or tensors that are not contiguous f32; `gate` and `up` can be bf16, and on a CPU `dy` remains f32 (kernels
/// accept bf16 for all).
pub fn backward(gate: &Tensor, up: &Tensor, dy: &Tensor) -> Result<()> {
    glu::backward::<TanhGelu>(gate, up, dy)
}
